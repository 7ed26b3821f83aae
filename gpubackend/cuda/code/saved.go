// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// UnsavableCode implements gpubackend.Driver. The driver chooses where variables are, and chooses
// other places in another process. Stays says whether they were placed instead.
func (x *Code) UnsavableCode(image []byte, mem *budget.Account) string {
	why, err := managed.Stays(image, x.architecture(), x.options.Movable, mem)
	if err != nil {
		return "its code can't be read: " + err.Error()
	}
	return why
}

// Stays says why code that is loaded can't be made again in another process; "": all can.
func (x *Code) Stays() string {
	for _, why := range x.areas.stays {
		return why
	}
	return ""
}

// Movable says whether variables are placed where another process can have them.
func (x *Code) Movable() bool { return x.options.Movable }

// Codes implements gpubackend.Driver. A library's variables are the same for all contexts, and are
// there as soon as it is loaded.
func (x *Code) Codes() (list []gpubackend.Code) {
	for m, a := range x.areas.modules {
		list = append(list, gpubackend.Code{Address: a.base, Module: m, Context: a.owner.Handle})
	}
	for l, a := range x.areas.libraries {
		list = append(list, gpubackend.Code{Address: a.base, Library: l})
	}
	return list
}
