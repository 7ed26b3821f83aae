// SPDX-License-Identifier: Apache-2.0

package copyable

import (
	"slices"
	"sort"

	"github.com/paracuda/paracuda/gpubackend"
)

// Told are addresses of ours for memory that the driver has elsewhere: the guest knows the memory
// only by them. Nothing lies at them, so kernels that use them fail. Another process can have the
// same ones for memory that its driver has put elsewhere again.
type Told struct {
	base, bytes uint64           // of all such addresses; none if bytes is 0
	list        []Alias          // by At; none overlaps another
	of          map[uint64]Alias // by Real
}

// Alias is memory at Real that the guest knows at At.
type Alias struct{ At, Real, Bytes uint64 }

func (a *Alias) end() uint64 { return a.At + a.Bytes }

// AliasAlign is the alignment of their addresses: no type of CUDA needs more.
const AliasAlign = 256

// SetRange says which addresses they are. Nothing else may ever be at them.
func (t *Told) SetRange(base, bytes uint64) {
	t.base, t.bytes, t.of = base, bytes, map[uint64]Alias{}
}

// first is the position of the first alias that ends after addr.
func (t *Told) first(addr uint64) int {
	return sort.Search(len(t.list), func(i int) bool { return t.list[i].end() > addr })
}

// Add gives memory an address; false if there is no room.
func (t *Told) Add(real, bytes uint64) (at uint64, ok bool) {
	at = t.base
	for i := range t.list {
		if bytes <= t.list[i].At-at {
			break
		}
		at = (t.list[i].end() + AliasAlign - 1) &^ (AliasAlign - 1)
	}
	return at, t.Put(Alias{At: at, Real: real, Bytes: bytes})
}

// Put gives memory the address that it had in another process; false if it can't have that.
func (t *Told) Put(a Alias) bool {
	i := t.first(a.At)
	offset := a.At - t.base
	_, twice := t.of[a.Real]
	switch {
	case a.Bytes == 0 || offset > t.bytes || a.Bytes > t.bytes-offset || twice:
		return false
	case i < len(t.list) && t.list[i].At < a.end():
		return false
	}
	t.list = slices.Insert(t.list, i, a)
	t.of[a.Real] = a
	return true
}

// Remove takes an address back.
func (t *Told) Remove(at uint64) {
	if i := t.first(at); i < len(t.list) && t.list[i].At == at {
		delete(t.of, t.list[i].Real)
		t.list = slices.Delete(t.list, i, i+1)
	}
}

// Of is the address that was told of memory that the driver has at an address.
func (t *Told) Of(real, bytes uint64) (at uint64, ok bool) {
	a := t.of[real]
	return a.At, a.Bytes == bytes && bytes != 0
}

// Back is what the guest knows an address of the driver's as.
func (t *Told) Back(real uint64) uint64 {
	for i := range t.list {
		if a := &t.list[i]; real-a.Real < a.Bytes {
			return a.At + (real - a.Real)
		}
	}
	return real
}

// has says whether an address is such a one.
func (t *Told) has(addr uint64) bool { return addr-t.base < t.bytes }

// find is where a range is that begins at such an address: InvalidValue unless all of it is.
func (t *Told) find(addr, bytes uint64) (Place, gpubackend.Result) {
	i := t.first(addr)
	if i == len(t.list) || addr < t.list[i].At || bytes > t.list[i].end()-addr {
		return Place{}, gpubackend.InvalidValue
	}
	return Place{t.list[i].Real + (addr - t.list[i].At), Device}, gpubackend.Success
}
