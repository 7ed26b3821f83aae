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

// checkRooms says whether each function that calls a device is in a room.
func (a *api) checkRooms() error {
	for _, f := range a.remote() {
		if f.room == "" {
			return fmt.Errorf("%s is in no room", f.symbol)
		}
	}
	return nil
}

// rooms are the rooms with such functions, in the order of the file.
func (a *api) rooms() (rooms []string) {
	for _, f := range a.remote() {
		if !slices.Contains(rooms, f.room) {
			rooms = append(rooms, f.room)
		}
	}
	return rooms
}

// roomInterface is the name of the interface of a room's functions.
func roomInterface(room string) string { return camel(room) + "Functions" }

// functionsGo writes the interface of each room, and the one of all.
func functionsGo(b *bytes.Buffer, a *api) {
	rooms := a.rooms()
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
