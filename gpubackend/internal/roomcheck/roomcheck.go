// SPDX-License-Identifier: Apache-2.0

// Package roomcheck checks, in tests, whether the rooms of a device have the functions that the
// description gives them by their names (gpubackend/api/cuda.def).
package roomcheck

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// described are the functions of each room.
var described = map[string]reflect.Type{
	"contexts": reflect.TypeFor[gpubackend.ContextsFunctions](),
	"code":     reflect.TypeFor[gpubackend.CodeFunctions](),
	"memory":   reflect.TypeFor[gpubackend.MemoryFunctions](),
	"copies":   reflect.TypeFor[gpubackend.CopiesFunctions](),
	"streams":  reflect.TypeFor[gpubackend.StreamsFunctions](),
	"graphs":   reflect.TypeFor[gpubackend.GraphsFunctions](),
	"textures": reflect.TypeFor[gpubackend.TexturesFunctions](),
	"green":    reflect.TypeFor[gpubackend.GreenFunctions](),
}

// Misplaced lists the described functions, as "room.Function", that are in another room of the
// device than described. A room is an embedded field of the device whose type is of a package below
// the device's own; its name is the first element of the path from there.
func Misplaced(device reflect.Type) []string {
	var wrong []string
	for i := range device.NumField() {
		room := roomOf(device, device.Field(i))
		if room == "" {
			continue
		}
		for _, name := range functions(device.Field(i).Type) {
			if in, ok := described[room]; !ok || !has(in, name) {
				wrong = append(wrong, room+"."+name)
			}
		}
	}
	return wrong
}

// Complete says whether each described function is in one room that this package knows.
func Complete(t testing.TB) {
	t.Helper()
	all := reflect.TypeFor[gpubackend.Functions]()
	n := 0
	for _, room := range slices.Sorted(maps.Keys(described)) {
		n += described[room].NumMethod()
	}
	if n != all.NumMethod() {
		t.Errorf("rooms have %d functions, there are %d", n, all.NumMethod())
	}
}

// roomOf is the name of the room in a field of a device, or "".
func roomOf(device reflect.Type, f reflect.StructField) string {
	if !f.Anonymous || f.Type.Kind() != reflect.Pointer {
		return ""
	}
	below, ok := strings.CutPrefix(f.Type.Elem().PkgPath(), device.PkgPath()+"/")
	if !ok {
		return ""
	}
	room, _, _ := strings.Cut(below, "/")
	return room
}

// functions are the described functions among the methods of a type.
func functions(t reflect.Type) []string {
	var names []string
	all := reflect.TypeFor[gpubackend.Functions]()
	for i := range all.NumMethod() {
		if name := all.Method(i).Name; has(t, name) {
			names = append(names, name)
		}
	}
	return names
}

func has(t reflect.Type, name string) bool {
	_, ok := t.MethodByName(name)
	return ok
}
