// SPDX-License-Identifier: Apache-2.0

// Package handles numbers the objects of a device: contexts, streams, modules and all others that
// its caller names. A number doesn't tell the type of its object: who looks it up says which type
// is expected. A Table belongs to one goroutine.
package handles

import (
	"iter"

	"github.com/paracuda/paracuda/gpubackend"
)

// first is the first number. Those below are CUDA's own names of streams.
const first = 0x100

// Table is the objects by number. Numbers are never used again.
type Table struct {
	objects map[uint64]any
	last    uint64
}

// New returns an empty table.
func New() *Table { return &Table{objects: make(map[uint64]any), last: first - 1} }

// Next returns a number that names nothing here: its user keeps what it names elsewhere.
func (t *Table) Next() uint64 {
	t.last++
	return t.last
}

// Reserve makes sure that no number up to this one is given.
func (t *Table) Reserve(number uint64) { t.last = max(t.last, number) }

// Add gives an object a handle.
func (t *Table) Add(object any) uint64 {
	handle := t.Next()
	t.objects[handle] = object
	return handle
}

// Remove forgets a handle. One that names nothing does no harm.
func (t *Table) Remove(handle uint64) { delete(t.objects, handle) }

// All yields all handles and objects, in any order. Those that were yielded may be removed
// meanwhile.
func (t *Table) All() iter.Seq2[uint64, any] {
	return func(yield func(uint64, any) bool) {
		for handle, object := range t.objects {
			if !yield(handle, object) {
				return
			}
		}
	}
}

// Len is how many there are.
func (t *Table) Len() int { return len(t.objects) }

// Clear forgets all.
func (t *Table) Clear() { clear(t.objects) }

// Find returns the object of a handle if it is of that type.
func Find[T any](t *Table, handle uint64) (T, bool) {
	object, ok := t.objects[handle].(T)
	return object, ok
}

// Of returns the object of a handle, or the result missing if there is none of that type.
func Of[T any](t *Table, handle uint64, missing gpubackend.Result) (T, gpubackend.Result) {
	object, ok := Find[T](t, handle)
	if !ok {
		return object, missing
	}
	return object, gpubackend.Success
}
