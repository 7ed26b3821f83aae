// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// maxKept bounds the textures and surfaces that can be made again.
const maxKept = 1 << 16

// SavedObject is a texture, or a surface, which has no sampling.
type SavedObject struct {
	Number   uint64 // the device's, which the guest and its kernels have
	Context  uint64 // handle
	Resource []byte // CUDA_RESOURCE_DESC, with the guest's handle of an array
	Sampling []byte // CUDA_TEXTURE_DESC
	View     []byte // CUDA_RESOURCE_VIEW_DESC
}

var errSaved = errors.New("a saved texture")

// Save returns all textures and surfaces. All of them must have been kept.
func (t *Textures) Save() ([]SavedObject, error) {
	list := make([]SavedObject, 0, len(t.kept))
	for _, x := range t.kept {
		if _, result := t.native(x.Resource); result != gpubackend.Success {
			return nil, errors.New("the array of a texture or surface is gone")
		}
		list = append(list, *x)
	}
	slices.SortFunc(list, func(a, b SavedObject) int { return cmp.Compare(a.Number, b.Number) })
	return list, nil
}

// Restore makes them again, when all else is there already. current makes a context current.
func (t *Textures) Restore(
	list []SavedObject, current func(context uint64) gpubackend.Result,
) error {
	for i := range list {
		x := &list[i]
		if len(x.Resource) != cudaabi.ResourceDescSize || t.kept[x.Number] != nil ||
			!sized(x.Sampling, cudaabi.TextureDescSize) ||
			!sized(x.View, cudaabi.ResourceViewDescSize) || !flagsKnown(x.Sampling) {
			return fmt.Errorf("%w has an impossible description", errSaved)
		}
		if result := current(x.Context); result != gpubackend.Success {
			return fmt.Errorf("%w is in context %#x: %w", errSaved, x.Context, result.Err())
		}
		if err := t.Driver.NextTexture(x.Number); err != nil {
			return err
		}
		number, result := t.create(x)
		if result != gpubackend.Success {
			return fmt.Errorf("make a texture again: %w", result.Err())
		}
		if number != x.Number {
			return fmt.Errorf("%w gets number %#x, it had %#x", errSaved, number, x.Number)
		}
		t.count(x, number, result)
	}
	return nil
}

func sized(b []byte, size int) bool { return len(b) == 0 || len(b) == size }

// create makes a texture or surface in the current context.
func (t *Textures) create(x *SavedObject) (uint64, gpubackend.Result) {
	resource, result := t.native(x.Resource)
	if result != gpubackend.Success {
		return 0, result
	}
	if len(x.Sampling) == 0 {
		return t.Driver.SurfObjectCreate(resource)
	}
	return t.Driver.TexObjectCreate(resource, x.Sampling, x.View)
}
