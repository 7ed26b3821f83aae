// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// The driver chooses where variables are, and chooses other places in another process. With
// Options.Movable they lie in memory of the window instead: the driver gets code with their
// addresses in place of the variables (package managed). Kernels then use them where another
// process can have them, too. Code of which this isn't known to be possible is loaded as it is.
//
// All contexts share the driver's code of a library, and so would share these variables. So a
// library's variables are placed only where there is one GPU, and then there is one context.

// Placing is memory of the window for variables.
type Placing interface {
	PlaceVariables(gpu int, bytes uint64) (uint64, gpubackend.Result)
	FreeVariables(addr uint64)
}

// Filling writes to such memory.
type Filling interface {
	Put(dst uint64, src []byte) gpubackend.Result
	Clear(dst, bytes uint64) gpubackend.Result
}

// variablesArea is memory of the window with the variables of a module or library.
type variablesArea struct {
	*placed
	base     uint64 // of the memory; the variables begin at a multiple of their alignment
	contents [][]byte
	memory   *budget.Account   // of contents, and of constants
	owner    *contexts.Context // of a module; nil for a library

	constants []constant // of which the guest was told
}

// areas is all of them, and what can't be moved.
type areas struct {
	modules   map[gpubackend.Module]*variablesArea
	libraries map[gpubackend.Library]*variablesArea
	lent      map[gpubackend.Module]gpubackend.Library // a library's modules
	stays     map[uint64]string                        // why code stays, by module or library

	reserved, refused bool                  // the addresses of constants
	restored          map[uint64][]constant // until their code is made, by its area's base
	waiting           *budget.Account       // of these
}

func newAreas() areas {
	return areas{
		modules:   make(map[gpubackend.Module]*variablesArea),
		libraries: make(map[gpubackend.Library]*variablesArea),
		lent:      make(map[gpubackend.Module]gpubackend.Library),
		stays:     make(map[uint64]string),
	}
}

// of is that of a module, which may be a library's; nil: it has none.
func (a *areas) of(m gpubackend.Module) *variablesArea {
	if of := a.modules[m]; of != nil {
		return of
	}
	return a.libraries[a.lent[m]]
}

// find is a variable of an area, which may be nil.
func (a *variablesArea) find(name string) (addr, bytes uint64, found bool) {
	if a == nil {
		return 0, 0, false
	}
	return a.placed.find(name)
}

// open returns the code of an image with its variables in an area, which is nil if there are none,
// or if they stay where the driver has them, for a reason.
func (x *Code) open(image []byte, library bool) (code []byte, a *variablesArea, why string) {
	if !x.options.Movable {
		return image, nil, ""
	}
	memory := x.options.Host.Open()
	defer memory.Close()
	c, err := managed.OpenPlain(image, x.architecture(), memory)
	switch {
	case err != nil:
		return image, nil, err.Error()
	case c == nil:
		return image, nil, ""
	case library && (x.gpus.Len() != 1 || x.made() > 1):
		return image, nil, "a library's code has variables, and there are several GPUs or contexts"
	}
	gpu := 0
	if !library {
		gpu = x.contexts.CurrentGPU()
	}
	const align = managed.MaxAlign
	base, r := x.placing.PlaceVariables(gpu, c.Bytes+align)
	if r != gpubackend.Success {
		return image, nil, "there was no memory to place its code's variables"
	}
	a = &variablesArea{base: base, memory: x.options.Host.Open(),
		placed: newPlaced(c, (base+align-1)&^uint64(align-1))}
	code = c.Place(a.at)
	for i := range a.variables {
		initial := a.variables[i].Initial(code)
		if a.memory.Take(uint64(len(initial))) != nil {
			x.free(a)
			return image, nil, "there was no memory to place its code's variables"
		}
		a.contents = append(a.contents, bytes.Clone(initial))
	}
	return code, a, ""
}

// made is how many contexts there are.
func (x *Code) made() (n int) {
	for c := range x.contexts.All() {
		if c.Base == nil && c.Exists() {
			n++
		}
	}
	return n
}

// shared says whether another context would share variables with one that there is.
func (x *Code) shared() bool { return len(x.areas.libraries) > 0 && x.made() > 0 }

func (x *Code) free(a *variablesArea) {
	x.forgetConstants(a)
	x.placing.FreeVariables(a.base)
	a.memory.Close()
}

// fillArea writes the variables' initial content, in the current context.
func (x *Code) fillArea(
	a *variablesArea, global func(name string) (addr, bytes uint64, r gpubackend.Result),
) gpubackend.Result {
	if a.filled {
		return gpubackend.Success
	}
	r := x.filling.Clear(a.at, max(a.bytes, 1))
	for i := 0; i < len(a.variables) && r == gpubackend.Success; i++ {
		v, content := &a.variables[i], a.contents[i]
		if v.Content != "" {
			if content, r = x.contentOf(v, global); r != gpubackend.Success {
				return r
			}
		}
		if len(content) > 0 {
			r = x.filling.Put(a.at+v.Offset, content)
		}
	}
	if r == gpubackend.Success {
		r = x.tellAgain(a, global)
	}
	a.filled = r == gpubackend.Success
	return r
}

// contentOf reads a variable's initial content from where the driver has loaded it.
func (x *Code) contentOf(
	v *managed.Variable, global func(name string) (addr, bytes uint64, r gpubackend.Result),
) ([]byte, gpubackend.Result) {
	addr, bytes, r := global(v.Content)
	if r != gpubackend.Success || bytes != v.Size {
		return nil, gpubackend.InvalidImage
	}
	content := make([]byte, bytes)
	return content, x.copyOut(content, addr)
}

// fillLibraryArea does so for a library's.
func (x *Code) fillLibraryArea(l gpubackend.Library, a *variablesArea) gpubackend.Result {
	r := x.fillArea(a, func(name string) (uint64, uint64, gpubackend.Result) {
		return x.calls.LibraryGetGlobal(l, name)
	})
	if r != gpubackend.Success {
		x.options.Log.WithField("result", r).Error(
			"the variables of a library can't be given their initial content")
	}
	return r
}

// fillAreas does so for all libraries, in a context that has just begun.
func (x *Code) fillAreas(c *contexts.Context) {
	for l, a := range x.areas.libraries {
		if a.filled {
			continue
		}
		x.contexts.In(c, func() gpubackend.Result { return x.fillLibraryArea(l, a) })
	}
}

// loadMovableModule loads a module with its variables in the window, if that is possible.
func (x *Code) loadMovableModule(
	image, options, infoLog, errorLog []byte,
) (m gpubackend.Module, infoUsed, errorUsed uint64, r gpubackend.Result) {
	return loadMovable(x, image, options, false,
		func(code []byte) (gpubackend.Module, uint64, uint64, gpubackend.Result) {
			return x.loadModule(code, options, infoLog, errorLog)
		},
		func(m gpubackend.Module, a *variablesArea) gpubackend.Result {
			r := x.fillArea(a, func(name string) (uint64, uint64, gpubackend.Result) {
				return x.calls.ModuleGetGlobal(m, name)
			})
			if r == gpubackend.Success {
				a.owner, x.areas.modules[m] = x.contexts.Home(), a
			}
			return r
		}, x.ModuleUnload)
}

// loadMovableLibrary does so for a library.
func (x *Code) loadMovableLibrary(
	image, options, infoLog, errorLog []byte,
) (l gpubackend.Library, infoUsed, errorUsed uint64, r gpubackend.Result) {
	return loadMovable(x, image, options, true,
		func(code []byte) (gpubackend.Library, uint64, uint64, gpubackend.Result) {
			return x.loadLibrary(code, options, infoLog, errorLog)
		},
		func(l gpubackend.Library, a *variablesArea) (r gpubackend.Result) {
			if c := x.contexts.Any(); c != nil {
				r = x.contexts.In(c, func() gpubackend.Result { return x.fillLibraryArea(l, a) })
			}
			if r == gpubackend.Success {
				x.areas.libraries[l] = a
			}
			return r
		}, x.LibraryUnload)
}

// loadMovable loads an image by load. If its variables are in an area, take fills that, and notes
// whose it is. If either fails, the image is loaded as it is.
func loadMovable[H ~uint64](
	x *Code, image, options []byte, library bool,
	load func(code []byte) (h H, infoUsed, errorUsed uint64, r gpubackend.Result),
	take func(h H, a *variablesArea) gpubackend.Result, unload func(H) gpubackend.Result,
) (h H, infoUsed, errorUsed uint64, r gpubackend.Result) {
	code, a, why := x.open(image, library)
	h, infoUsed, errorUsed, r = load(code)
	if a != nil && r == gpubackend.Success {
		if r = take(h, a); r != gpubackend.Success {
			unload(h)
		}
	}
	if a != nil && r != gpubackend.Success {
		x.free(a)
		why = "its code isn't taken by the driver when its variables are placed"
		h, infoUsed, errorUsed, r = load(image)
	}
	if why == "" && forDebugger(options) {
		why = "its code is compiled for a debugger, and may have addresses of functions"
	}
	if r == gpubackend.Success && why != "" {
		x.areas.stays[uint64(h)] = why
	}
	return h, infoUsed, errorUsed, r
}

// forDebugger says whether the driver was to compile for a debugger. In such code pointers to
// functions are addresses that the driver chooses (package managed).
func forDebugger(options []byte) bool {
	for ; len(options) >= 16; options = options[16:] {
		id, value := binary.LittleEndian.Uint64(options), binary.LittleEndian.Uint64(options[8:])
		if id == cudaabi.JITGenerateDebugInfo && uint32(value) != 0 {
			return true
		}
	}
	return false
}

// stays notes that the guest has been told where the driver has a variable.
func (x *Code) stays(h uint64, name string) {
	if x.options.Movable && x.areas.stays[h] == "" {
		x.areas.stays[h] = "it knows where constant \"" + name + "\" is"
	}
}

// dropModule forgets a module that is gone.
func (x *Code) dropModule(m gpubackend.Module) {
	if a := x.areas.modules[m]; a != nil {
		x.free(a)
	}
	delete(x.areas.modules, m)
	delete(x.areas.lent, m)
	delete(x.areas.stays, uint64(m))
}

// dropLibrary does so for a library.
func (x *Code) dropLibrary(l gpubackend.Library) {
	if a := x.areas.libraries[l]; a != nil {
		x.free(a)
	}
	delete(x.areas.libraries, l)
	delete(x.areas.stays, uint64(l))
	for m, of := range x.areas.lent {
		if of == l {
			x.dropModule(m)
		}
	}
}

// endAreas forgets what was in a context that has ended. Libraries live on.
func (x *Code) endAreas(c *contexts.Context) {
	for m, a := range x.areas.modules {
		if a.owner == c {
			x.dropModule(m)
		}
	}
	if c.Base != nil {
		return
	}
	for m := range x.areas.lent {
		x.dropModule(m)
	}
	for _, a := range x.areas.libraries {
		a.filled = false
		x.forgetConstants(a)
	}
}
