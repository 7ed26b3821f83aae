// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the commands that made a program's objects, so that another worker can make
// the same objects from the same commands, in the same order.
//
//	journal.go   what is kept, and for how long
//	saved.go     how it is written and read
//
// A command is kept as long as what it made is there. Nobody tells the journal that an object is
// gone: it checks now and then, so that it is never much longer than needed.
//
// Executed says why if the commands alone can't make the objects again: an object was made from one
// that is gone by now, or together with one that is gone, or the journal doesn't know it. A journal
// that would become too large drops everything, and Executed says so from then on.
//
// # Who owns what
//
// The worker's loop owns a Journal. It keeps the slices that it is given: nobody may change them.
//
// # Who may lie
//
// The guest wrote the commands. They are checked like any other command when they are executed
// again.
package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// ErrFixed is wrapped by all errors that say why a program's objects can't be made again.
var ErrFixed = errors.New("its objects can't be made again")

// Executed is a command that was executed.
type Executed struct {
	Op      uint16
	Context uint64   // the guest's handle of the context that it needs; 0: none
	Words   []uint64 // its arguments
	Body    []byte   // the buffers that the words refer to
	Made    []uint64 // handles of the objects that it made, in this order
}

// Key says which setting a command changes: of several with the same key, the last counts.
type Key [5]uint64

type kept struct {
	Executed
	uses    []uint64 // handles of the objects that it needs
	key     Key
	setting bool
	ended   bool // the context that it needed has begun anew since
}

// executedBytes is what a command counts for besides its slices.
const executedBytes = 256

func (k *kept) bytes() uint64 {
	return executedBytes + 8*uint64(len(k.Words)+len(k.Made)+len(k.uses)) + uint64(len(k.Body))
}

// Journal is the journal of one program.
type Journal struct {
	limit  uint64
	memory *budget.Budget
	alive  func(handle uint64) bool

	list    []kept
	bytes   uint64
	tidyAt  int // length of list at which what is gone is dropped
	refused error
}

// tidyLeast is how long a journal always may be.
const tidyLeast = 64

// New returns an empty journal of at most limit bytes, which count for memory. alive says whether
// an object is there.
func New(limit uint64, memory *budget.Budget, alive func(handle uint64) bool) *Journal {
	return &Journal{limit: limit, memory: memory, alive: alive, tidyAt: tidyLeast}
}

// Add keeps a command that made objects, which exist by now, from the objects that it uses.
func (j *Journal) Add(e Executed, uses []uint64) {
	if len(e.Made) > 0 {
		j.add(kept{Executed: e, uses: uses})
	}
}

// Set keeps a command that changed a setting of the objects that it uses, until one of them is
// gone.
func (j *Journal) Set(key Key, e Executed, uses []uint64) {
	e.Made = nil
	j.Unset(key)
	j.add(kept{Executed: e, uses: uses, key: key, setting: true})
}

// Unset drops the command that changed a setting: it is as at the beginning again.
func (j *Journal) Unset(key Key) { j.UnsetAll(func(k Key) bool { return k == key }) }

// UnsetAll is Unset of all settings that match.
func (j *Journal) UnsetAll(match func(Key) bool) {
	j.drop(func(k *kept) bool { return k.setting && match(k.key) })
}

// End says that a context has ended, and begins anew. Settings that need it are dropped, but for
// those that last. What was made in it and is still there can't be made again.
func (j *Journal) End(context uint64, lasts func(Key) bool) {
	j.drop(func(k *kept) bool {
		return k.setting && slices.Contains(k.uses, context) && !lasts(k.key)
	})
	for i := range j.list {
		if k := &j.list[i]; !k.setting && k.Context == context && context != 0 {
			k.ended = true
		}
	}
}

// Settings are the commands that changed settings that match, in their order.
func (j *Journal) Settings(match func(Key) bool) (list []Executed) {
	for i := range j.list {
		if k := &j.list[i]; k.setting && match(k.key) {
			list = append(list, k.Executed)
		}
	}
	return list
}

// Maker is the command that made an object, if that is kept.
func (j *Journal) Maker(handle uint64) (e Executed, ok bool) {
	for i := range j.list {
		if slices.Contains(j.list[i].Made, handle) {
			return j.list[i].Executed, true
		}
	}
	return e, false
}

func (j *Journal) add(k kept) {
	if j.refused != nil {
		return
	}
	n := k.bytes()
	if len(j.list) >= j.tidyAt || !j.fits(n) {
		j.tidy()
	}
	if !j.fits(n) {
		j.Refuse(fmt.Sprintf("the commands that made them take more than %d bytes, "+
			"or more than the host's memory has room for", j.limit))
		return
	}
	j.memory.Force(n)
	j.bytes += n
	j.list = append(j.list, k)
}

func (j *Journal) fits(n uint64) bool {
	return n <= j.limit && j.bytes <= j.limit-n && j.memory.Room(n)
}

// Refuse drops everything, for good: the program has done what the journal doesn't keep.
func (j *Journal) Refuse(why string) {
	if j.refused != nil {
		return
	}
	j.refused = fmt.Errorf("%w: %s", ErrFixed, why)
	j.memory.Give(j.bytes)
	j.list, j.bytes = nil, 0
}

// Refused says why the journal has dropped everything; nil: it hasn't.
func (j *Journal) Refused() error { return j.refused }

// Bytes is what the journal takes.
func (j *Journal) Bytes() uint64 { return j.bytes }

// tidy drops what is gone.
func (j *Journal) tidy() {
	j.drop(func(k *kept) bool {
		if k.setting {
			return !j.all(k.uses)
		}
		return !slices.ContainsFunc(k.Made, j.alive)
	})
	j.tidyAt = max(tidyLeast, 2*len(j.list))
}

// drop drops the commands that match.
func (j *Journal) drop(match func(*kept) bool) {
	j.list = slices.DeleteFunc(j.list, func(k kept) bool {
		gone := match(&k)
		if gone {
			j.forget(&k)
		}
		return gone
	})
}

// forget stops counting a command.
func (j *Journal) forget(k *kept) {
	j.memory.Give(k.bytes())
	j.bytes -= k.bytes()
}

func (j *Journal) all(handles []uint64) bool {
	for _, h := range handles {
		if !j.alive(h) {
			return false
		}
	}
	return true
}

// Executed returns the commands that make all objects again. objects is how many there are. Each
// command uses only what earlier ones have made.
func (j *Journal) Executed(objects int) ([]Executed, error) {
	if j.refused != nil {
		return nil, j.refused
	}
	j.tidy()
	made := make(map[uint64]bool, objects)
	list := make([]Executed, 0, len(j.list))
	for i := range j.list {
		k := &j.list[i]
		if err := k.follows(made, j.alive); err != nil {
			return nil, err
		}
		for _, h := range k.Made {
			made[h] = true
		}
		list = append(list, k.Executed)
	}
	if len(made) != objects {
		return nil, fmt.Errorf("%w: %d of %d weren't made by commands alone", ErrFixed,
			objects-len(made), objects)
	}
	return list, nil
}

// follows says why a command can't follow those that made these objects.
func (k *kept) follows(made map[uint64]bool, alive func(uint64) bool) error {
	if k.ended {
		return fmt.Errorf("%w: command %d made some in a context that has ended since", ErrFixed,
			k.Op)
	}
	for _, h := range k.uses {
		if !made[h] {
			return fmt.Errorf("%w: command %d made one of %#x, which is gone or came later",
				ErrFixed, k.Op, h)
		}
	}
	for _, h := range k.Made {
		if made[h] {
			return fmt.Errorf("%w: %#x was made twice", ErrFixed, h)
		}
		if !alive(h) {
			return fmt.Errorf("%w: command %d made %#x along with others, and it is gone",
				ErrFixed, k.Op, h)
		}
	}
	return nil
}
