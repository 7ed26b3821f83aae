// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
)

// viewFormats are those of CUresourceViewFormat that aren't compressed, from 1 on, each with 1, 2
// and 4 channels.
var viewFormats = []sampler.Format{
	sampler.FormatUint8, sampler.FormatInt8, sampler.FormatUint16, sampler.FormatInt16,
	sampler.FormatUint32,
	sampler.FormatInt32,
	sampler.FormatHalf, sampler.FormatFloat,
}

// view applies a CUDA_RESOURCE_VIEW_DESC: another format of the same size, some of the levels, some
// of the layers.
func (s *source) view(b []byte) gpubackend.Result {
	v := cudaabi.ResourceViewDesc(b)
	format := v.Format()
	first, last := v.FirstMipmapLevel(), v.LastMipmapLevel()
	firstLayer, lastLayer := v.FirstLayer(), v.LastLayer()
	if !s.filtered || first > last || int(last) >= len(s.levels) || firstLayer > lastLayer ||
		lastLayer >= max(s.levels[0].Depth, 1) {
		return gpubackend.InvalidValue
	}
	if format > 0 {
		i := int(format - 1)
		if i >= 3*len(viewFormats) {
			return gpubackend.NotSupported
		}
		seen := source{format: viewFormats[i/3], channels: 1 << (i % 3)}
		if seen.texel() != s.texel() {
			return gpubackend.InvalidValue
		}
		s.format, s.channels = seen.format, seen.channels
	}
	s.levels = slices.Clone(s.levels[first : last+1])
	if !s.layered {
		return gpubackend.Success
	}
	for i := range s.levels {
		m := &s.levels[i]
		m.Base += uint64(firstLayer) * m.Slice
		m.Depth = lastLayer - firstLayer + 1
	}
	return gpubackend.Success
}
