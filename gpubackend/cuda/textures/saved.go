// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// The driver doesn't tell where arrays are, and nobody asks: they are named by handles. So another
// process makes them anew, and only their content is saved, with the layout of device memory. An
// array's place is its number there. Textures and surfaces are numbers that kernels may have kept.
// The driver gives out the lowest one that is free: so fillers are made until it is the right one.

const (
	// MaxContent is how much all arrays may have to be saved: the worker has it in host memory.
	MaxContent = 256 << 20
	// maxFillers is how many textures are made, at most, to get at a number.
	maxFillers = 1 << 16
)

// array is what is known of one, or of one with levels.
type array struct {
	desc      cudaabi.Array3DDescriptor
	levels    uint64 // of a mipmapped one; 0: it is none
	owner     *contexts.Context
	restoring uint64 // its place, until it has its content; 0: none
}

// note remembers an array that was made.
func (x *Textures) note(h uint64, desc []byte, levels uint64, r gpubackend.Result) {
	if r != gpubackend.Success {
		return
	}
	x.arrays[h] = &array{desc: slices.Clone(cudaabi.Array3DDescriptor(desc)), levels: levels,
		owner: x.contexts.Home(), restoring: x.place}
	x.place = 0
}

// described is an array's description in the form that has more to say.
func described(desc []byte) []byte {
	from, to := cudaabi.ArrayDescriptor(desc), make(cudaabi.Array3DDescriptor,
		cudaabi.Array3DDescriptorSize)
	to.SetWidth(from.Width())
	to.SetHeight(from.Height())
	to.SetFormat(from.Format())
	to.SetNumChannels(from.NumChannels())
	return to
}

// plainFlags are those of arrays whose memory is there from the start, in the usual form.
const plainFlags = cudaabi.Array3DLayered | cudaabi.Array3DSurfaceLdst | cudaabi.Array3DCubemap |
	cudaabi.Array3DTextureGather

// level is the size of one level: bytes of a row, rows and planes.
func (a *array) level(n uint64) (row, rows, planes uint64, ok bool) {
	element, ok := formatBytes[a.desc.Format()]
	if !ok || a.desc.Flags()&^plainFlags != 0 {
		return 0, 0, 0, false
	}
	smaller := func(v uint64) uint64 { return max(v>>n, 1) }
	planes = max(a.desc.Depth(), 1)
	if a.desc.Flags()&(cudaabi.Array3DLayered|cudaabi.Array3DCubemap) == 0 {
		planes = smaller(planes)
	}
	row = smaller(a.desc.Width()) * element * uint64(max(a.desc.NumChannels(), 1))
	return row, smaller(a.desc.Height()), planes, true
}

// content is how many bytes are in all levels; false if that isn't known.
func (a *array) content() (bytes uint64, ok bool) {
	for n := range max(a.levels, 1) {
		row, rows, planes, ok := a.level(n)
		if !ok {
			return 0, false
		}
		bytes += row * rows * planes // its making was refused if that is very large
	}
	return bytes, true
}

// SavesTextures implements gpubackend.SavingTextures.
func (x *Textures) SavesTextures() bool { return true }

// listed are the handles of arrays, in order: an array's place is its position, from 1 on.
func (x *Textures) listed() []uint64 {
	list := make([]uint64, 0, len(x.arrays))
	for h := range x.arrays {
		list = append(list, h)
	}
	slices.Sort(list)
	return list
}

// ArrayPlaces implements gpubackend.SavingTextures.
func (x *Textures) ArrayPlaces() (list []gpubackend.ArrayPlace) {
	for i, h := range x.listed() {
		p := gpubackend.ArrayPlace{Address: uint64(i) + 1}
		if x.arrays[h].levels > 0 {
			p.Mipmapped = gpubackend.MipmappedArray(h)
		} else {
			p.Array = gpubackend.Array(h)
		}
		list = append(list, p)
	}
	return list
}

// PlaceArray says which place the array has that is made next.
func (x *Textures) PlaceArray(place uint64) { x.place = place }

// Unsavable says why textures or the content of arrays can't be saved; "": they can.
func (x *Textures) Unsavable() string {
	sum := uint64(0)
	for _, a := range x.arrays {
		bytes, ok := a.content()
		if !ok {
			return "it has arrays of an unusual format or kind"
		}
		if sum += bytes; sum > MaxContent {
			return fmt.Sprintf("its arrays have more than %d MiB", MaxContent>>20)
		}
	}
	for _, addr := range x.linear {
		if !x.backed(addr) {
			return "memory of a texture is gone, or isn't the GPU's"
		}
	}
	return ""
}

// SaveArrays writes the content of all arrays.
func (x *Textures) SaveArrays(to io.Writer) error {
	for _, h := range x.listed() {
		a := x.arrays[h]
		bytes, _ := a.content()
		content := cmem.Allocate(int(bytes))
		err := x.copyLevels(h, a, content, false)
		if err == nil {
			head := binary.LittleEndian.AppendUint64(nil, bytes)
			_, err = to.Write(append(head, content.Bytes()...))
		}
		content.Free()
		if err != nil {
			return fmt.Errorf("save an array: %w", err)
		}
	}
	_, err := to.Write(make([]byte, 8))
	return err
}

var errArrays = errors.New("the saved arrays")

// RestoreArrays reads it. The arrays needn't be there.
func (x *Textures) RestoreArrays(from io.Reader) error {
	for left := uint64(MaxContent); ; {
		var head [8]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return fmt.Errorf("read %w: %w", errArrays, err)
		}
		n := binary.LittleEndian.Uint64(head[:])
		if n == 0 {
			return nil
		}
		if n > left {
			return fmt.Errorf("%w have %d bytes too many", errArrays, n-left)
		}
		left -= n
		content := make([]byte, n)
		if _, err := io.ReadFull(from, content); err != nil {
			return fmt.Errorf("read %w: %w", errArrays, err)
		}
		x.contents = append(x.contents, content)
	}
}

// ArraysRestored gives the arrays their content, and ends what was made to get at numbers.
func (x *Textures) ArraysRestored() error {
	for h, a := range x.arrays {
		if a.restoring == 0 || a.restoring > uint64(len(x.contents)) {
			return fmt.Errorf("%w don't have one", errArrays)
		}
		content := x.contents[a.restoring-1]
		if bytes, ok := a.content(); !ok || bytes != uint64(len(content)) {
			return fmt.Errorf("%w have %d bytes for one of %d", errArrays, len(content), bytes)
		}
		x.contents[a.restoring-1], a.restoring = nil, 0
		memory := cmem.Copied(content, 0)
		err := x.copyLevels(h, a, memory, true)
		memory.Free()
		if err != nil {
			return fmt.Errorf("restore an array: %w", err)
		}
	}
	for _, content := range x.contents {
		if content != nil {
			return fmt.Errorf("%w have more than there are", errArrays)
		}
	}
	x.contents, x.wanted = nil, 0
	for _, free := range x.fillers {
		free()
	}
	x.fillers = nil
	return nil
}

// copyLevels copies an array's levels, which follow one another, to memory of ours or from it.
func (x *Textures) copyLevels(h uint64, a *array, memory cmem.Memory, in bool) error {
	return x.contexts.In(a.owner, func() gpubackend.Result {
		at := memory.Address()
		for n := range max(a.levels, 1) {
			level := h
			if a.levels > 0 {
				l, r := x.calls.MipmappedArrayGetLevel(gpubackend.MipmappedArray(h), n)
				if r != gpubackend.Success {
					return r
				}
				level = uint64(l)
			}
			row, rows, planes, _ := a.level(n)
			m := cmem.Allocate(cudaabi.Memcpy3DSize)
			p := cudaabi.Memcpy3D(m.Bytes())
			ours, theirs := p.Dst(), p.Src()
			if in {
				ours, theirs = theirs, ours
			}
			ours.SetMemoryType(cudaabi.MemoryTypeHost)
			ours.SetHost(at)
			ours.SetPitch(row)
			ours.SetHeight(rows)
			theirs.SetMemoryType(cudaabi.MemoryTypeArray)
			theirs.SetArray(level)
			p.SetWidthInBytes(row)
			p.SetHeight(rows)
			p.SetDepth(planes)
			r := x.calls.Memcpy3DAsync(m, 0)
			if r == gpubackend.Success {
				r = x.calls.CtxSynchronize()
			}
			m.Free()
			if r != gpubackend.Success {
				return r
			}
			at += row * rows * planes
		}
		return gpubackend.Success
	}).Err()
}

// NextTexture implements gpubackend.SavingTextures.
func (x *Textures) NextTexture(number uint64) error {
	if number == 0 {
		return errors.New("no texture has number 0")
	}
	x.wanted = number
	return nil
}

// numbered makes a texture or surface, with the number that is wanted, if one is.
func (x *Textures) numbered(
	create func() (uint64, gpubackend.Result), destroy func(uint64) gpubackend.Result,
) (uint64, gpubackend.Result) {
	wanted := x.wanted
	x.wanted = 0
	for {
		h, r := create()
		if r != gpubackend.Success || wanted == 0 || h >= wanted || len(x.fillers) == maxFillers {
			return h, r
		}
		c := x.contexts.Current()
		x.fillers = append(x.fillers, func() {
			x.contexts.In(c, func() gpubackend.Result { return destroy(h) })
		})
	}
}
