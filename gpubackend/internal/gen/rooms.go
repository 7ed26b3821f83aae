// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
)

var roomName = regexp.MustCompile(`^[a-z]+$`)

// enter reads "NAME": the room of the functions that follow.
func (a *api) enter(f []string) error {
	if len(f) != 1 || !roomName.MatchString(f[0]) {
		return fmt.Errorf("want the name of a room: %q", f)
	}
	a.room = f[0]
	return nil
}

// rooms are those with functions that a device is called for, in the order of the file. No such
// function may be in none.
func (a *api) rooms() ([]string, error) {
	var rooms []string
	for _, f := range a.remote() {
		if f.room == "" {
			return nil, fmt.Errorf("%s is in no room", f.symbol)
		}
		if !slices.Contains(rooms, f.room) {
			rooms = append(rooms, f.room)
		}
	}
	return rooms, nil
}

// roomInterface is the name of the interface of a room's functions.
func roomInterface(room string) string { return camel(room) + "Functions" }

// functionsGo writes the interface of each room, and the one of all.
func functionsGo(b *bytes.Buffer, a *api) {
	rooms, err := a.rooms()
	if err != nil {
		panic(err) // parseAPI has asked
	}
	b.WriteString("// Functions is the described part of Driver: " +
		"a method for each function of the driver API, by room.\ntype Functions interface {\n")
	for _, room := range rooms {
		fmt.Fprintf(b, "%s\n", roomInterface(room))
	}
	b.WriteString("}\n\n")
	for _, room := range rooms {
		fmt.Fprintf(b, "// %s is what the room %s of a device does of them.\n"+
			"type %[1]s interface {\n", roomInterface(room), room)
		for _, f := range a.remote() {
			if f.room == room {
				fmt.Fprintf(b, "%s\n", signature(f, ""))
			}
		}
		b.WriteString("}\n\n")
	}
}
