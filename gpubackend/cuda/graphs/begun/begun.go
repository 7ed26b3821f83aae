// SPDX-License-Identifier: Apache-2.0

// Package begun finds out which streams are held by host functions of graphs. The GPU's driver
// says which function it calls, but not for which graph, in which stream, or what else of the graph
// goes on meanwhile. So launches are noted until their streams are known to be idle, and a
// function's stream is known if only one launched graph has it, only in that stream, and so that
// nothing else of the graph can go on while it is called.
//
// If anything isn't known, fewer streams are held, or none: the caller then takes what goes on for
// work that may write to memory.
package begun

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
)

// Hosts are the host functions of an executable graph, by token: whether nothing else of the graph
// goes on while the function is called.
type Hosts map[uint64]bool

// Most bounds the launches that are noted, those of one graph in one stream counting once. Beyond
// that nothing is known until all work has ended.
const Most = 256

// Launches are the launches of graphs that may not have ended. The zero value has none.
type Launches struct {
	all  map[launch]bool // whether the graph still is what was launched
	over bool
}

type launch struct {
	exec gpubackend.GraphExec
	at   activity.Place
}

// Begin notes that a graph was launched. busy says whether a stream may have work in flight.
func (l *Launches) Begin(
	e gpubackend.GraphExec, at activity.Place, busy func(activity.Place) bool,
) {
	n := launch{e, at}
	if _, known := l.all[n]; known || l.over {
		return // if it was changed since, the launch before may still go on
	}
	l.prune(busy)
	if l.over = len(l.all) == Most; l.over {
		return
	}
	if l.all == nil {
		l.all = make(map[launch]bool)
	}
	l.all[n] = true
}

// Change notes that an executable graph is changed or destroyed: what its launches have begun goes
// on as it was.
func (l *Launches) Change(e gpubackend.GraphExec) {
	for n := range l.all {
		if n.exec == e {
			l.all[n] = false
		}
	}
}

// End notes that no work is in flight.
func (l *Launches) End() {
	clear(l.all)
	l.over = false
}

func (l *Launches) prune(busy func(activity.Place) bool) {
	for n := range l.all {
		if !busy(n.at) {
			delete(l.all, n)
		}
	}
}

// caller is whose a function is.
type caller struct {
	launch
	alone bool // nothing else goes on there while it is called
}

// Held are the streams that are held by the functions that are due, as far as that is known. of
// says which functions an executable graph has; false: nobody knows.
func (l *Launches) Held(
	due []uint64, of func(gpubackend.GraphExec) (Hosts, bool), busy func(activity.Place) bool,
) (held []activity.Place) {
	if len(due) == 0 || l.over {
		return nil
	}
	l.prune(busy)
	callers := map[uint64]caller{}
	for n, same := range l.all {
		tokens, ok := of(n.exec)
		if !ok || !same {
			return nil
		}
		for token, alone := range tokens {
			_, twice := callers[token]
			callers[token] = caller{n, alone && !twice}
		}
	}
	for _, token := range due {
		if c, ok := callers[token]; ok && c.alone {
			held = append(held, c.at)
		}
	}
	return held
}
