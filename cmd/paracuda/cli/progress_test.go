// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: a step is told of once it has taken long, and only then.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		p := &progress{out: &said, wait: patient}
		read := func() string { // beside the timer
			p.mu.Lock()
			defer p.mu.Unlock()
			return said.String()
		}
		p.now("quick")
		time.Sleep(patient - time.Millisecond)
		p.now("slow")
		time.Sleep(patient - time.Millisecond)
		synctest.Wait()
		if got := read(); got != "" {
			t.Errorf("too early: %q", got)
		}
		time.Sleep(10 * patient)
		p.now("quick again")
		p.now("")
		time.Sleep(10 * patient)
		synctest.Wait()
		if got := read(); got != "paracuda: slow ...\n" {
			t.Errorf("it says %q", got)
		}
	})
}

// TestProgressIsForTerminals: a file or a pipe gets none of it.
func TestProgressIsForTerminals(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if p := newProgress(w); p.out == w {
		t.Error("a pipe is taken for a terminal")
	}
}
