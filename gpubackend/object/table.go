// SPDX-License-Identifier: Apache-2.0

// Package object keeps the objects of one guest process: contexts, modules, streams and so on. A
// guest knows an object by a handle that this package gives out; the device's own handle never
// leaves the host, and a handle that a guest makes up, keeps too long or uses for the wrong kind is
// not found.
//
// A table belongs to one goroutine.
package object

import (
	"iter"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Kind is the type of an object.
type Kind uint8

// The kinds of cuda.def.
const (
	Context Kind = iota + 1
	Stream
	Event
	Module
	Function
	Library
	Kernel
	Graph
	GraphExec
	GraphNode
	Pool
	Memory
	Link
	Array
	MipmappedArray
	Texture
	Surface
	GreenContext
	Resource
	ResourceDesc
	TextureReference
	SurfaceReference
	kinds
)

// A handle is tag | generation << 24 | index+1: never 0, 1 or 2, which name CUDA's default streams,
// and never a plausible address, so that a mix-up shows.
const (
	tag             = uint64(0x5043) << 48
	generationShift = 24
	indexMask       = 1<<generationShift - 1
	maxObjects      = indexMask
)

type row struct {
	kind       Kind
	generation uint32
	native     uint64
	parent     uint64
	nextFree   int32
}

// Table maps handles to the device's own. The zero value is empty.
type Table struct {
	// Memory is the host's memory that objects count for; nil: as much as they need.
	Memory *budget.Budget

	rows  []row
	free  int32 // index+1 of the first free row
	live  int
	count [kinds]int // live ones of each kind
}

// weight is what an object counts for, in bytes: its row, what the worker knows about it, and what
// the device keeps for it, which is a guess for NVIDIA's driver.
var weight = [kinds]uint64{
	Context: 1 << 20, Stream: 16 << 10, Event: 1 << 10, Module: 16 << 10, Function: 1 << 10,
	Library: 16 << 10, Kernel: 1 << 10,
	Graph: 1 << 10, GraphExec: 4 << 10, GraphNode: 512, Pool: 1 << 10, Memory: 1 << 10,
	Link: 4 << 10, Array: 1 << 10,
	MipmappedArray: 2 << 10, Texture: 1 << 10, Surface: 1 << 10, GreenContext: 64 << 10,
	Resource: 1 << 10, ResourceDesc: 1 << 10,
	TextureReference: 1 << 10, SurfaceReference: 1 << 10,
}

// Room tells whether one more object of a kind may be added. Ask before the device makes it.
func (t *Table) Room(kind Kind) bool { return t.live < maxObjects && t.Memory.Room(weight[kind]) }

// Add gives native a handle. The object dies with its parent (0 for none). It returns 0 when the
// table is full.
func (t *Table) Add(kind Kind, native, parent uint64) uint64 {
	i := int(t.free) - 1
	if i < 0 {
		if len(t.rows) == maxObjects {
			return 0
		}
		t.rows = append(t.rows, row{generation: 1})
		i = len(t.rows) - 1
	} else {
		t.free = t.rows[i].nextFree
	}
	e := &t.rows[i]
	e.kind, e.native, e.parent = kind, native, parent
	t.live++
	t.count[kind]++
	t.Memory.Force(weight[kind])
	return handle(i, e.generation)
}

func handle(i int, generation uint32) uint64 {
	return tag | uint64(generation)<<generationShift | uint64(i+1)
}

// find returns the row of h, or nil.
func (t *Table) find(h uint64) *row {
	i := int(h&indexMask) - 1
	if i < 0 || i >= len(t.rows) {
		return nil
	}
	e := &t.rows[i]
	if e.kind == 0 || handle(i, e.generation) != h {
		return nil
	}
	return e
}

// Lookup returns the device's handle of h if it is an object of that kind.
func (t *Table) Lookup(kind Kind, h uint64) (native uint64, ok bool) {
	e := t.find(h)
	if e == nil || e.kind != kind {
		return 0, false
	}
	return e.native, true
}

// Existing returns the handle of an object of that kind with the given native handle, or 0. It
// looks at every object, so it is for rare calls.
func (t *Table) Existing(kind Kind, native uint64) uint64 {
	for i := range t.rows {
		if e := &t.rows[i]; e.kind == kind && e.native == native {
			return handle(i, e.generation)
		}
	}
	return 0
}

// Intern is Add for an object that may have a handle already.
func (t *Table) Intern(kind Kind, native, parent uint64) uint64 {
	if h := t.Existing(kind, native); h != 0 {
		return h
	}
	return t.Add(kind, native, parent)
}

// Replace makes an object one that the device has under another handle.
func (t *Table) Replace(h, native uint64) {
	if e := t.find(h); e != nil {
		e.native = native
	}
}

// Remove forgets h and everything that dies with it.
func (t *Table) Remove(h uint64) {
	e := t.find(h)
	if e == nil {
		return
	}
	kind := e.kind
	t.release(int(h&indexMask) - 1)
	switch kind {
	case Context, Module, Library, Kernel, Graph, MipmappedArray, GreenContext:
		t.RemoveChildren(h)
	}
}

// RemoveChildren forgets what dies with parent, but not parent. A library may have many kernels:
// what dies with any of them is looked for once.
func (t *Table) RemoveChildren(parent uint64) {
	if parent == 0 {
		return
	}
	var kernels map[uint64]bool
	for i := range t.rows {
		e := &t.rows[i]
		switch h := handle(i, e.generation); {
		case e.kind == 0 || e.parent != parent:
		case e.kind == Kernel:
			if kernels == nil {
				kernels = map[uint64]bool{}
			}
			kernels[h] = true
			t.release(i)
		default:
			t.Remove(h)
		}
	}
	if kernels == nil {
		return
	}
	for i := range t.rows {
		if e := &t.rows[i]; e.kind != 0 && kernels[e.parent] {
			t.Remove(handle(i, e.generation))
		}
	}
}

func (t *Table) release(i int) {
	e := &t.rows[i]
	t.count[e.kind]--
	t.Memory.Give(weight[e.kind])
	*e = row{generation: (e.generation + 1) & 0xffffff, nextFree: t.free}
	t.free = int32(i + 1)
	t.live--
}

// Parent returns what h dies with, 0 for nothing.
func (t *Table) Parent(h uint64) uint64 {
	if e := t.find(h); e != nil {
		return e.parent
	}
	return 0
}

// Has says whether there is such an object, of whatever kind.
func (t *Table) Has(h uint64) bool { return t.find(h) != nil }

// Len is the number of objects.
func (t *Table) Len() int { return t.live }

// Count is the number of objects of a kind.
func (t *Table) Count(kind Kind) int { return t.count[kind] }

// All yields the objects of a kind: handle and the device's own handle. It stops at the last of
// them, so that a few old objects among many are found quickly. The loop may remove objects, but
// must not add any.
func (t *Table) All(kind Kind) iter.Seq2[uint64, uint64] {
	return func(yield func(uint64, uint64) bool) {
		for i, left := 0, t.count[kind]; i < len(t.rows) && left > 0; i++ {
			e := &t.rows[i]
			if e.kind != kind {
				continue
			}
			left--
			if !yield(handle(i, e.generation), e.native) {
				return
			}
		}
	}
}
