// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// results are the lanes of the registers that an instruction writes.
type results [4][lanes.Count]uint64

// give stores results.
func (w *warp) give(in *decoded.Inst, r *results, m uint32) {
	for k, reg := range in.More.Regs {
		w.Store(reg, in.More.Widths[k], &r[k], m)
	}
}

// coordinates are the coordinates of all lanes.
type coordinates [4][lanes.Count]uint64

func (w *warp) loadAll(regs []decoded.Reg, c *coordinates) {
	for k, r := range regs[:min(len(regs), len(c))] {
		w.Load(r.Off, r.Width, &c[k])
	}
}

// eachTexture calls f for each lane of m with its texture; it is false after a fault. Lanes of
// textures that aren't bound are left out.
func (w *warp) eachTexture(in *decoded.Inst, m uint32, f func(lane int, t *sampler.Texture)) bool {
	var numbers [lanes.Count]uint64
	w.Load(in.A, in.AW, &numbers)
	var t *sampler.Texture
	last := uint64(0)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		if t == nil || numbers[i] != last {
			last = numbers[i]
			if t = w.texture(last, i); t == nil {
				return false
			}
		}
		if len(t.Levels) > 0 {
			f(i, t)
		}
	}
	return true
}

// planeOf is the plane that a lane's layer stands for.
func planeOf(op *decoded.Texture, t *sampler.Texture, c *coordinates, lane int) int {
	if !op.Layered {
		return 0
	}
	layers := int(t.Levels[0].Depth)
	step := 1
	if op.Cube {
		layers, step = layers/6, 6
	}
	return min(max(int(int32(c[0][lane])), 0), max(layers-1, 0)) * step
}

// positionOf returns a lane's coordinates after the layer.
func positionOf(op *decoded.Texture, c *coordinates, lane int) (at [3]float32) {
	first := op.Coordinates() - op.Dims
	for d := range op.Dims {
		at[d] = math.Float32frombits(uint32(c[first+d][lane]))
	}
	return at
}

// execTexture is tex.
func execTexture(w *warp, in *decoded.Inst, m uint32) {
	op := in.More.Texture
	var c, level, slopeX, slopeY coordinates
	var r results
	w.loadAll(op.At, &c)
	w.loadAll(op.Level, &level)
	if op.Slopes != nil {
		w.loadAll(op.Slopes[:op.Dims], &slopeX)
		w.loadAll(op.Slopes[op.Dims:], &slopeY)
	}
	ok := w.eachTexture(in, m, func(i int, t *sampler.Texture) {
		var v sampler.Texel
		switch {
		case op.Integer:
			v = fetchOf(op, t, &c, int(int32(level[0][i])), i)
		case op.Slopes != nil:
			v = sampleOf(op, t, slopeOf(op, t, &slopeX, &slopeY, i), &c, i)
		default:
			v = sampleOf(op, t, math.Float32frombits(uint32(level[0][i])), &c, i)
		}
		for k := range v {
			r[k][i] = uint64(v[k])
		}
	})
	if ok {
		w.give(in, &r, m)
	}
}

// fetchOf reads the texel with the numbers that are a lane's coordinates.
func fetchOf(op *decoded.Texture, t *sampler.Texture, c *coordinates, level,
	lane int) sampler.Texel {
	first := op.Coordinates() - op.Dims
	at := [3]int64{2: int64(planeOf(op, t, c, lane))}
	for d := range op.Dims {
		at[d] = int64(int32(c[first+d][lane]))
	}
	return t.Fetch(level, at[0], at[1], at[2])
}

// sampleOf samples for a lane.
func sampleOf(
	op *decoded.Texture, t *sampler.Texture, lod float32, c *coordinates, lane int,
) sampler.Texel {
	plane, at := planeOf(op, t, c, lane), positionOf(op, c, lane)
	switch {
	case !op.Cube:
		return t.Sample(lod, op.Dims, at, plane)
	case plane+6 > int(t.Levels[0].Depth):
		return sampler.Texel{} // it is no cube
	}
	return t.Cube(lod, at, plane)
}

// slopeOf is the level of detail for how the coordinates change: the longer of the two steps, in
// texels.
func slopeOf(op *decoded.Texture, t *sampler.Texture, x, y *coordinates, lane int) float32 {
	m := &t.Levels[0]
	sizes := [3]float64{float64(m.Width), float64(m.Height), float64(m.Depth)}
	longest := 0.0
	for _, c := range []*coordinates{x, y} {
		sum := 0.0
		for d := range op.Dims {
			step := float64(math.Float32frombits(uint32(c[d][lane])))
			if t.Normalized {
				step *= sizes[d]
			}
			sum += step * step
		}
		longest = max(longest, math.Sqrt(sum))
	}
	return sampler.LOD(longest)
}

// execGather is tld4.
func execGather(w *warp, in *decoded.Inst, m uint32) {
	op := in.More.Texture
	var c coordinates
	var r results
	w.loadAll(op.At, &c)
	ok := w.eachTexture(in, m, func(i int, t *sampler.Texture) {
		for k, v := range t.Gather(op.Channel, positionOf(op, &c, i), planeOf(op, t, &c, i)) {
			r[k][i] = uint64(v)
		}
	})
	if ok {
		w.give(in, &r, m)
	}
}

func bit32(b bool) uint32 { return uint32(scalar.Bit(b)) }

// textureAnswers are what txq gives.
var textureAnswers = [...]func(*sampler.Texture) uint32{
	decoded.QueryWidth:      func(t *sampler.Texture) uint32 { return t.Size().Width },
	decoded.QueryHeight:     func(t *sampler.Texture) uint32 { return t.Size().Height },
	decoded.QueryDepth:      func(t *sampler.Texture) uint32 { return t.Size().Depth },
	decoded.QueryArraySize:  func(t *sampler.Texture) uint32 { return t.Size().Depth },
	decoded.QueryLevels:     func(t *sampler.Texture) uint32 { return uint32(len(t.Levels)) },
	decoded.QueryNormalized: func(t *sampler.Texture) uint32 { return bit32(t.Normalized) },
}

// execQueryTexture is txq.
func execQueryTexture(w *warp, in *decoded.Inst, m uint32) {
	var r [lanes.Count]uint64
	answer := textureAnswers[in.Imm]
	if w.eachTexture(in, m, func(i int, t *sampler.Texture) { r[i] = uint64(answer(t)) }) {
		w.Store(in.D, in.DW, &r, m)
	}
}

// surfaceAnswers are what suq gives.
var surfaceAnswers = [...]func(*sampler.Surface) uint32{
	decoded.QueryWidth:     func(s *sampler.Surface) uint32 { return s.Width },
	decoded.QueryHeight:    func(s *sampler.Surface) uint32 { return s.Height },
	decoded.QueryDepth:     func(s *sampler.Surface) uint32 { return s.Depth },
	decoded.QueryArraySize: func(s *sampler.Surface) uint32 { return s.Depth },
}

// execQuerySurface is suq.
func execQuerySurface(w *warp, in *decoded.Inst, m uint32) {
	var numbers, r [lanes.Count]uint64
	w.Load(in.A, in.AW, &numbers)
	for rest := m; rest != 0; rest &= rest - 1 {
		i := lanes.First(rest)
		s := w.surface(numbers[i], i)
		if s == nil {
			return
		}
		r[i] = uint64(surfaceAnswers[in.Imm](s))
	}
	w.Store(in.D, in.DW, &r, m)
}

// locateSurface finds where the lanes' accesses of n bytes go. Lanes that go nowhere have address
// 0. It is false after a fault.
func (w *warp) locateSurface(in *decoded.Inst, n int64, m uint32, p *loadstore.Addresses) bool {
	op := in.More.Texture
	var numbers [lanes.Count]uint64
	var c coordinates
	w.Load(in.A, in.AW, &numbers)
	w.loadAll(op.At, &c)
	var s *sampler.Surface
	last := uint64(0)
	for rest := m; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (lanes.Count - 1)
		if s == nil || numbers[i] != last {
			last = numbers[i]
			if s = w.surface(last, i); s == nil {
				return false
			}
		}
		off, inside, aligned := locateOf(op, s, &c, i, n)
		switch {
		case inside && !aligned:
			w.failAt(i, cudaabi.ErrorMisalignedAddress,
				"surface access of %d bytes at an address that isn't a multiple of that", n)
			return false
		case inside:
			p[i] = uintptr(s.Base + off)
		case op.Beyond == decoded.BeyondTrap:
			w.failAt(i, cudaabi.ErrorLaunchFailed, "surface access beyond the edges")
			return false
		}
	}
	return true
}

// locateOf returns where in a surface a lane's access is. The first coordinate counts bytes.
func locateOf(
	op *decoded.Texture, s *sampler.Surface, c *coordinates, lane int, n int64,
) (off uint64, inside, aligned bool) {
	row := int64(uint64(s.Width) * s.Texel)
	limits := [3]int64{row - n, int64(s.Height) - 1, int64(s.Depth) - 1}
	at := [3]int64{}
	first := op.Coordinates() - op.Dims
	for d := range op.Dims {
		at[d] = int64(int32(c[first+d][lane]))
	}
	if op.Layered {
		at[2] = int64(int32(c[0][lane]))
	}
	for d := range at {
		if op.Beyond == decoded.BeyondClamp {
			at[d] = max(min(at[d], limits[d]), 0)
		}
		if at[d] < 0 || at[d] > limits[d] {
			return 0, false, false
		}
	}
	return uint64(at[2])*s.Slice + uint64(at[1])*s.Pitch + uint64(at[0]), true, at[0]%n == 0
}

// execSurfaceLoad is suld.b. Beyond the edges there are zeros.
func execSurfaceLoad(w *warp, in *decoded.Inst, m uint32) {
	var p loadstore.Addresses
	var r results
	size := in.More.Texture.Size
	if !w.locateSurface(in, int64(size)*int64(len(in.More.Regs)), m, &p) {
		return
	}
	for k := range in.More.Regs {
		for rest := m; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros32(rest) & (lanes.Count - 1); p[i] != 0 {
				r[k][i] = loadstore.Peek(p[i]+uintptr(k)*uintptr(size), size)
			}
		}
	}
	w.give(in, &r, m)
}

// execSurfaceStore is sust.b. Beyond the edges nothing is written.
func execSurfaceStore(w *warp, in *decoded.Inst, m uint32) {
	var p loadstore.Addresses
	size := in.More.Texture.Size
	if !w.locateSurface(in, int64(size)*int64(len(in.More.Regs)), m, &p) {
		return
	}
	for k, reg := range in.More.Regs {
		var v [lanes.Count]uint64
		w.Load(reg, in.More.Widths[k], &v)
		for rest := m; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros32(rest) & (lanes.Count - 1); p[i] != 0 {
				loadstore.Poke(p[i]+uintptr(k)*uintptr(size), size, v[i])
			}
		}
	}
}
