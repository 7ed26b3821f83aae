// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails the whole run if a descriptor that a session owned, or a goroutine, is left.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if n := openFDs.Load(); n != 0 {
		fmt.Fprintf(os.Stderr, "%d descriptors leaked\n", n)
		code = 99
	}
	if fuzz := flag.Lookup("test.fuzz"); fuzz != nil && fuzz.Value.String() != "" {
		os.Exit(code) // the fuzzing engine keeps goroutines of its own
	}
	for i := 0; runtime.NumGoroutine() > before && i < 3000; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		fmt.Fprintf(os.Stderr, "%d goroutines leaked\n", n-before)
		code = 99
	}
	os.Exit(code)
}
