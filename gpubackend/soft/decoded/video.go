// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"strings"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// decodeVideo decodes the SIMD video instructions: vadd2, vsub4, vabsdiff4 and
// so on, on all elements.
func decodeVideo(d *decoder, in *ptx.Inst, m *modifiers) error {
	op := strings.TrimRight(in.Op, "24")
	n := uint(16)
	if strings.HasSuffix(in.Op, "4") {
		n = 8
	}
	sat, add := m.has("sat"), m.has("add")
	dt, at, bt := m.typ(), m.typ(), m.typ()
	for _, t := range []ptx.Type{dt, at, bt} {
		if t != ptx.U32 && t != ptx.S32 {
			return errType
		}
	}
	f := scalar.Video(op, n, [3]ptx.Type{dt, at, bt}, sat, add)
	if f == nil || add && sat {
		return errType
	}
	return d.compute("", f, in.Args, ptx.B32, ptx.B32, ptx.B32, ptx.B32)
}
