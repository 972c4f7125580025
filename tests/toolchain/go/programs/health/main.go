// Program health prints how other tools judge one Kubernetes object.
//
//	health kstatus < object.json        what kstatus, and so Flux and Helm 4 --wait, concludes
//	health argocd SCRIPT < object.json  what an Argo CD health check in Lua concludes
//
// It prints one line of JSON with status and message.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	// Like encoding/json, but with int64 for integers, as in every Kubernetes client.
	"k8s.io/apimachinery/pkg/util/json"
)

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	result, err := run(os.Args[1:])
	if err == nil {
		var line []byte
		line, err = json.Marshal(result)
		fmt.Println(string(line))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(args []string) (health, error) {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return health{}, err
	}
	var object map[string]any
	if err := json.Unmarshal(input, &object); err != nil {
		return health{}, fmt.Errorf("failed to parse the object: %w", err)
	}
	switch {
	case len(args) == 1 && args[0] == "kstatus":
		return kstatus(object)
	case len(args) == 2 && args[0] == "argocd":
		return argocd(args[1], object)
	}
	return health{}, fmt.Errorf("usage: health kstatus | health argocd SCRIPT")
}

func kstatus(object map[string]any) (health, error) {
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		return health{}, err
	}
	return health{Status: string(result.Status), Message: result.Message}, nil
}

// argocd runs a script as Argo CD does: the libraries base, table and string, the object as the
// global obj, and a returned table with status and message.
func argocd(script string, object map[string]any) (health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName:   lua.OpenPackage,
		lua.BaseLibName:   lua.OpenBase,
		lua.TabLibName:    lua.OpenTable,
		lua.StringLibName: lua.OpenString,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", value(state, object))
	if err := state.DoFile(script); err != nil {
		return health{}, err
	}
	table, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return health{}, fmt.Errorf("the script must return a table, not %s", state.Get(-1).Type())
	}
	return health{
		Status:  lua.LVAsString(table.RawGetString("status")),
		Message: lua.LVAsString(table.RawGetString("message")),
	}, nil
}

// value converts JSON as Argo CD does: null is nil, so the key is absent.
func value(state *lua.LState, json any) lua.LValue {
	switch json := json.(type) {
	case bool:
		return lua.LBool(json)
	case int64:
		return lua.LNumber(json)
	case float64:
		return lua.LNumber(json)
	case string:
		return lua.LString(json)
	case []any:
		table := state.CreateTable(len(json), 0)
		for _, item := range json {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(json))
		for key, item := range json {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}
