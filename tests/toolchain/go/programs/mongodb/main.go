// Command mongodb serves the protocol of MongoDB, without authentication, from SQLite files. Indexes whose
// entries expire are accepted, but their entries stay.
//
//	mongodb ADDRESS FOLDER
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// The option of an index that FerretDB rejects, and one of the same length that it ignores.
var (
	expires = []byte("\x10expireAfterSeconds\x00\x00\x00\x00\x00")
	ignored = []byte("\x02background\x00\x08\x00\x00\x00ignored\x00")
)

// maxMessage is the largest message of the protocol.
const maxMessage = 48_000_000

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: mongodb ADDRESS FOLDER")
	}
	socket := filepath.Join(args[1], "mongodb.sock")
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{Unix: socket},
		Handler:   "sqlite",
		SQLiteURL: "file:" + args[1] + "/",
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(client, socket)
		}
	}()
	return server.Run(context.Background())
}

// serve connects a client to FerretDB until one of them ends.
func serve(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	for {
		message, err := read(client)
		if err != nil {
			return
		}
		if _, err := server.Write(bytes.ReplaceAll(message, expires, ignored)); err != nil {
			return
		}
	}
}

// read returns the next message, which begins with its length.
func read(client io.Reader) ([]byte, error) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(client, header); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header)
	if length < 4 || length > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	message := make([]byte, length)
	copy(message, header)
	_, err := io.ReadFull(client, message[4:])
	return message, err
}
