// SPDX-License-Identifier: Apache-2.0

package decoded

import "github.com/paracuda/paracuda/gpubackend/soft/ptx"

// A Reference is a texture or surface reference that a program declares.
type Reference struct {
	Name    string
	Surface bool
}

// addReference gives a reference its address, which holds its number.
func (p *Program) addReference(v *ptx.Variable) {
	p.Addresses[v] = ReferenceWindow | uint64(len(p.references))
	p.references = append(p.references, Reference{v.Name, v.Opaque == ptx.SurfaceRef})
}
