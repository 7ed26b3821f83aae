// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"io"

	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// Restorer is what a device keeps about a layout from RestoreLayout to LayoutRestored. Its zero
// value restores nothing.
type Restorer struct{ restoring *Restoring }

// Begin is Restore.
func (r *Restorer) Begin(
	heaps []*devmem.Heap, of func(addr uint64) *devmem.Heap, from io.Reader,
) (err error) {
	r.restoring, err = Restore(heaps, of, from)
	return err
}

// Next says where the next allocation is. It is an error if nothing is restored.
func (r *Restorer) Next(addr uint64) error { return r.restoring.Next(addr) }

// End says whether every allocation has been given out. Then the restoring has ended.
func (r *Restorer) End() error {
	err := r.restoring.Done()
	if err == nil {
		r.restoring = nil
	}
	return err
}

// Allocations is how many allocations heaps have, without those that are left out.
func Allocations(heaps []*devmem.Heap) (n int) {
	for _, h := range heaps {
		n += h.Len()
		for _, s := range h.Segments() {
			if LeftOut(s.Kind) {
				n--
			}
		}
	}
	return n
}
