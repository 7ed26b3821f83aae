// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/gate"
)

// TestBusyIsTold: the ledger says how busy the VM keeps the GPU, for those who ask in the guest.
func TestBusyIsTold(t *testing.T) {
	page := newLedger(t)
	gates, err := gate.New() // where time is counted
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gates.Close)
	x := newVMOf(t, Config{
		Spawn: &processes{}, Ledger: page, Gate: gates, AuditPause: 50 * time.Millisecond,
	})
	x.hello()
	p := (&tenant{vm: x}).spinner(0)
	p.launch(1, 20*time.Second)
	for end := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		percent, known := page.Busy()
		if known && percent > 50 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d %% of the GPU beside a kernel that lasts, known: %v", percent, known)
		}
	}
	x.endWorker(0)
	for end := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		if percent, known := page.Busy(); known && percent == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a GPU that nobody uses is busy")
		}
	}
}
