// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

func TestUsage(t *testing.T) {
	r := newRig(t)
	ask := func(device, from uint64) gpubackend.Result {
		return r.call(t, gpubackend.Op(wire.OpUsage), device, from)
	}
	r.usage.accounts = ledger.NewProcess()
	r.usage.gpus = []uint64{11, 12}
	if got := ask(0, 0); got != gpubackend.NotSupported {
		t.Errorf("without a ledger: %v", got)
	}
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	ledger.NewAudit(page, 0).Begin(5, 50)
	r.usage.accounts.Join(page, 5)
	r.usage.accounts.Account(12).Force(ledger.Contexts, 100)
	page.SetBusy(25)
	for _, test := range []struct {
		device, from uint64
		want         [4]uint64 // busy, next, pid, bytes
	}{
		{0, 0, [4]uint64{26}},
		{1, 0, [4]uint64{26, 6, 50, 100}},
		{1, 6, [4]uint64{26}},
		{1, math.MaxUint64, [4]uint64{26}},
	} {
		if got := ask(test.device, test.from); got != gpubackend.Success {
			t.Errorf("%+v: %v", test, got)
		}
		s := r.slot()
		if got := [4]uint64(s.Word[:4]); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if got := ask(2, 0); got != gpubackend.InvalidDevice {
		t.Errorf("a GPU that there isn't: %v", got)
	}
}
