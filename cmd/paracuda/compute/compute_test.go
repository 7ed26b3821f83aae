// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft"
)

// wrong is a GPU that copies a wrong byte back, or isn't there.
type wrong struct {
	gpubackend.Driver
	absent bool
}

func (w wrong) Open(env []string) (*gpubackend.Inventory, gpubackend.Result) {
	if w.absent {
		return nil, gpubackend.NoDevice
	}
	return w.Driver.Open(env)
}

func (w wrong) CopyOut(dst []byte, src uint64) gpubackend.Result {
	r := w.Driver.CopyOut(dst, src)
	dst[len(dst)-1] ^= 1
	return r
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		memory uint64
		with   func(gpubackend.Driver) gpubackend.Driver
		err    string
	}{
		{"good", 64 << 20, func(d gpubackend.Driver) gpubackend.Driver { return d }, ""},
		{"wrong", 64 << 20, func(d gpubackend.Driver) gpubackend.Driver {
			return wrong{Driver: d}
		}, "wrong numbers"},
		{"absent", 64 << 20, func(d gpubackend.Driver) gpubackend.Driver {
			return wrong{Driver: d, absent: true}
		}, "open the GPU: CUDA_ERROR_NO_DEVICE"},
	} {
		d := soft.New(soft.Options{Memory: tt.memory})
		gpu, err := Run(tt.with(d))
		d.Close()
		switch {
		case tt.err == "" && (err != nil || !strings.HasPrefix(gpu, "Paracuda Software GPU")):
			t.Errorf("%s: %q, %v", tt.name, gpu, err)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
		}
	}
}
