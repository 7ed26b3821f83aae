// SPDX-License-Identifier: Apache-2.0

package children

import (
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// TestSoftMemoryIsBounded: the ledger's bound holds on the software GPU, too, and programs are told
// of it.
func TestSoftMemoryIsBounded(t *testing.T) {
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	page.SetBound(32 << 20)
	accounts := ledger.NewProcess()
	accounts.Join(page, 0)
	policy := handover.Policy{SoftMemory: 64 << 20}
	d, err := newDriver(hostgpus.Soft, policy, nil, accounts, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	s, r := d.Open(nil)
	if r != gpubackend.Success || s.Device[0].TotalMemory != 32<<20 {
		t.Fatalf("%v, %+v", r, s)
	}
	c, r := d.DevicePrimaryCtxRetain(0)
	if r != gpubackend.Success || d.SetCurrent(c) != gpubackend.Success {
		t.Fatal(r)
	}
	free, total, r := d.MemGetInfo()
	if r != gpubackend.Success || total != 32<<20 || free == 0 || free >= total {
		t.Errorf("there are %d of %d bytes, %v", free, total, r)
	}
	if _, r := d.MemAlloc(free + 1); r != gpubackend.OutOfMemory {
		t.Errorf("more than is free: %v", r)
	}
	if _, r := d.MemAlloc(free); r != gpubackend.Success {
		t.Errorf("what is free: %v", r)
	}
	page.SetBound(16 << 20)
	if free, total, _ := d.MemGetInfo(); total != 16<<20 || free != 0 {
		t.Errorf("there are %d of %d bytes when the bound is lower", free, total)
	}
}

// TestCUDALogsWhereItsWorkerDoes, and not on standard error.
func TestCUDALogsWhereItsWorkerDoes(t *testing.T) {
	log := logrus.NewEntry(logrus.New())
	if got := cudaOptions(handover.Policy{}, nil, log).Log; got != log {
		t.Errorf("the log is %v", got)
	}
}
