// SPDX-License-Identifier: Apache-2.0

package code

import "github.com/paracuda/paracuda/gpubackend"

// Codes implements gpubackend.Driver.
func (x *Code) Codes() (list []gpubackend.Code) {
	for c, set := range x.sets {
		for h, m := range set.modules {
			list = append(list, gpubackend.Code{
				Address: m.base, Module: gpubackend.Module(h), Context: c.Handle(),
			})
		}
		for l, m := range set.libraries {
			list = append(list, gpubackend.Code{
				Address: m.base, Library: gpubackend.Library(l.handle), Context: c.Handle(),
			})
		}
	}
	return list
}

// LoadCode implements gpubackend.Driver.
func (x *Code) LoadCode(h gpubackend.Library) gpubackend.Result {
	_, result := x.libraryModule(h)
	return result
}

// Heaps is the number of contexts whose kernels have a heap.
func (x *Code) Heaps() (n int) {
	for _, set := range x.sets {
		if set.heap != nil {
			n++
		}
	}
	return n
}
