// SPDX-License-Identifier: Apache-2.0

// Package socket says who may connect to the UNIX sockets of Paracuda's processes. It makes pairs
// of sockets, and connections from descriptors. Groups and paths come from operators, who may be
// wrong but don't lie; a descriptor may be of any kind.
package socket

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
)

const (
	// MaxPath is how long the path of a UNIX socket may be: its address holds 108 bytes, with a
	// zero at the end (unix(7)).
	MaxPath = 107
	// GroupMode lets a socket's owner and group connect, and nobody else.
	GroupMode fs.FileMode = 0o660
)

// Group is the number of one of the host's groups; None leaves a socket to its owner's.
type Group int

// None is no group.
const None Group = -1

// FindGroup looks a group up by its name; "" is None.
func FindGroup(name string) (Group, error) {
	if name == "" {
		return None, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return None, fmt.Errorf("%s: the host has no group of that name", name)
	}
	number, err := strconv.Atoi(g.Gid)
	if err != nil {
		return None, fmt.Errorf("%s: %w", name, err)
	}
	return Group(number), nil
}

// Give gives a socket to a group.
func (g Group) Give(path string) error {
	if g == None {
		return nil
	}
	return os.Chown(path, -1, int(g))
}
