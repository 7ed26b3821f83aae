// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

// TestTold: each fault of a GPU that the VM has is told once. What a program did wrong isn't told.
func TestTold(t *testing.T) {
	var b strings.Builder
	l := logrus.New()
	l.SetOutput(&b)
	x := New(0, []hostgpus.GPU{{UUID: "GPU-a"}, {UUID: "GPU-b"}}, logrus.NewEntry(l))
	for _, f := range []*handover.Fault{
		nil, {GPU: 1, Result: cudaabi.ErrorUnknown}, {GPU: 1, Result: cudaabi.ErrorUnknown},
		{GPU: 1, Result: cudaabi.ErrorECCUncorrectable}, {GPU: 2, Result: cudaabi.ErrorUnknown},
		{GPU: -1, Result: cudaabi.ErrorUnknown}, {GPU: 0, Result: cudaabi.ErrorIllegalAddress},
		{GPU: 0},
	} {
		x.Told(7, f)
	}
	all := x.List()
	if len(all) != 2 || all[0].GPU != 1 || all[0].Result != cudaabi.ErrorUnknown ||
		all[1].Result != cudaabi.ErrorECCUncorrectable || all[0].Time == 0 {
		t.Errorf("%+v", all)
	}
	if n := strings.Count(b.String(), "broken, or gone"); n != 2 ||
		!strings.Contains(b.String(), "uuid=GPU-b") ||
		!strings.Contains(b.String(), "CUDA_ERROR_ECC_UNCORRECTABLE (214)") ||
		strings.Contains(b.String(), "GPU-a") {
		t.Errorf("log: %s", b.String())
	}
	if n := len(New(2, nil, logrus.NewEntry(l)).List()); n != 0 {
		t.Errorf("%d from the start", n)
	}
}
