// Command cosign is cosign without the clients of the key services of clouds, which take a third of
// its build time. Keys in files and keyless signatures work.
package main

import (
	"log"

	"github.com/sigstore/cosign/v3/cmd/cosign/cli"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		log.Fatalf("error during command execution: %v", err)
	}
}
