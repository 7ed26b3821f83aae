// SPDX-License-Identifier: Apache-2.0

package gpubackend

import (
	"errors"
	"fmt"
	"testing"
)

// TestResultNames: an error has CUDA's name and number.
func TestResultNames(t *testing.T) {
	for _, c := range []struct {
		result Result
		want   string
	}{
		{IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
		{StreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"},
		{12345, "CUDA error (12345)"},
	} {
		if got := c.result.Err().Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if Success.Err() != nil {
		t.Error("success is an error")
	}
}

// TestResultIn: an error has the result that it is, or wraps.
func TestResultIn(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Result
	}{
		{nil, Success},
		{errors.New("no"), Success},
		{Unknown.Err(), Unknown},
		{fmt.Errorf("copy: %w", errors.Join(errors.New("no"), OutOfMemory.Err())), OutOfMemory},
	} {
		if got := ResultIn(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestSticky lists the errors that end a context.
func TestSticky(t *testing.T) {
	sticky := map[Result]bool{
		ECCUncorrectable: true, NvlinkUncorrectable: true, Contained: true, IllegalAddress: true,
		LaunchTimeout: true, Assert: true, HardwareStackError: true, IllegalInstruction: true,
		MisalignedAddress: true, InvalidAddressSpace: true, InvalidPC: true, LaunchFailed: true,
		TensorMemoryLeak: true,
	}
	for r := range Result(1000) {
		if r.Sticky() != sticky[r] {
			t.Errorf("%v: %v", r, r.Sticky())
		}
	}
}
