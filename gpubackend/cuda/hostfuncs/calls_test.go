// SPDX-License-Identifier: Apache-2.0

package hostfuncs_test

import (
	"os"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfuncs"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// soon waits for a condition.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestOnceHoldsItsStream until release is called, or all are.
func TestOnceHoldsItsStream(t *testing.T) {
	for _, end := range []string{"released", "closed"} {
		t.Run(end, func(t *testing.T) {
			d := drivertest.Open(t)
			v, err := hostfuncs.New()
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			called := make(chan uint64, 1)
			release, r := v.Once(d.LaunchHostFunc(), 2, 7, func(token uint64) { called <- token })
			if r != gpubackend.Success {
				t.Fatalf("put it into a stream: %d", r)
			}
			if token := <-called; token != 7 {
				t.Errorf("function %d was called", token)
			}
			if r := d.StreamQuery(2); r != gpubackend.NotReady {
				t.Errorf("the stream doesn't wait: %d", r)
			}
			if end == "released" {
				release()
				release()
			} else {
				v.Close()
			}
			soon(t, "the stream still waits",
				func() bool { return d.StreamQuery(2) == gpubackend.Success })
		})
	}
}
