// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// A Binding is what a texture or surface reference of a module refers to in a launch; nothing when
// it is zero.
type Binding struct {
	Texture *sampler.Texture
	Surface *sampler.Surface
}

// Objects finds texture and surface objects by the numbers by which kernels name them. It must be
// safe for concurrent use; nil is an unknown number.
type Objects interface {
	Texture(number uint64) *sampler.Texture
	Surface(number uint64) *sampler.Surface
}

// binding returns what the reference at an address is bound to.
func (r *launchRun) binding(addr uint64) (Binding, bool) {
	i := addr - decoded.ReferenceWindow
	if i >= uint64(len(r.prog.References())) {
		return Binding{}, false
	}
	if i >= uint64(len(r.Bindings)) {
		return Binding{}, true
	}
	return r.Bindings[i], true
}

// texture finds the texture of a number or reference and makes sure that its memory is there. It
// returns nil after a fault, and emptyTexture for a reference that isn't bound.
func (w *warp) texture(number uint64, lane int) *sampler.Texture {
	run := w.block.run
	var t *sampler.Texture
	b, isReference := run.binding(number)
	switch {
	case isReference && b.Texture == nil:
		return &emptyTexture
	case isReference:
		t = b.Texture
	case run.Objects != nil:
		t = run.Objects.Texture(number)
	}
	if t == nil {
		w.failAt(lane, cudaabi.ErrorIllegalAddress, "unknown texture %#x", number)
		return nil
	}
	for i := range t.Levels {
		if m := &t.Levels[i]; !w.Cache.Covers(m.Base, m.Extent(t.TexelBytes()), false) {
			w.failAt(lane, cudaabi.ErrorIllegalAddress, "texture %#x of memory that isn't there",
				number)
			return nil
		}
	}
	return t
}

// emptyTexture has no levels: fetches give 0.
var emptyTexture sampler.Texture

// surface is texture for surfaces. A reference that isn't bound is a fault.
func (w *warp) surface(number uint64, lane int) *sampler.Surface {
	run := w.block.run
	var s *sampler.Surface
	b, isReference := run.binding(number)
	switch {
	case isReference:
		s = b.Surface
	case run.Objects != nil:
		s = run.Objects.Surface(number)
	}
	if s == nil {
		w.failAt(lane, cudaabi.ErrorIllegalAddress, "unknown surface %#x", number)
		return nil
	}
	if !w.Cache.Covers(s.Base, s.Extent(s.Texel), true) {
		w.failAt(lane, cudaabi.ErrorIllegalAddress, "surface %#x of memory that isn't there",
			number)
		return nil
	}
	return s
}
