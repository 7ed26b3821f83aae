// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// kind is a line of cuda.def that describes a kind of handle.
type kind struct {
	name, goName string
	intern       bool   // the same object may be given again: it keeps its handle
	unlisted     bool   // the library has no list of them
	value        bool   // a wrong handle is an invalid value, not an invalid handle
	graph        bool   // an object of graphs
	room         string // room of the worker that finds them, "" for the table of objects
	known        string // function of the library that knows them, "" for its list
}

// handle reads "NAME": a kind of handle that only commands.def and code written by hand have.
func (a *api) handle(f []string) error {
	if len(f) != 1 || a.names(f[0]) {
		return fmt.Errorf("want a new name: %q", f)
	}
	a.handles = append(a.handles, f[0])
	return nil
}

// names says whether there is such a kind of handle.
func (a *api) names(kind string) bool {
	return a.kindOf(kind) != nil || slices.Contains(a.handles, kind)
}

// kind reads "NAME GO-NAME [FLAG...]".
func (a *api) kind(f []string) error {
	if len(f) < 2 || a.names(f[0]) {
		return fmt.Errorf("want a new name, a name in Go, and flags: %q", f)
	}
	k := &kind{name: f[0], goName: f[1]}
	for _, flag := range f[2:] {
		flag, value, _ := strings.Cut(flag, "=")
		switch flag {
		case "intern":
			k.intern = true
		case "unlisted":
			k.unlisted = true
		case "value":
			k.value = true
		case "graph":
			k.graph = true
		case "by":
			k.room = value
		case "known":
			k.known = value
		default:
			return fmt.Errorf("%s: unknown flag %q", k.name, flag)
		}
	}
	a.kinds = append(a.kinds, k)
	return nil
}

func (a *api) kindOf(name string) *kind {
	for _, k := range a.kinds {
		if k.name == name {
			return k
		}
	}
	return nil
}

// older reads "NAME SYMBOL".
func (a *api) older(f []string) error {
	if len(f) != 2 || a.old[f[0]] != "" || a.prototypes[f[1]] == "" {
		return fmt.Errorf("want an old symbol and one that has a prototype: %q", f)
	}
	a.old[f[0]] = f[1]
	return nil
}
