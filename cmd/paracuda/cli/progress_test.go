// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: a step is printed once it has taken long, and not before.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		p := &Progress{out: &said, wait: patient}
		read := func() string { // the timer's goroutine writes it
			p.mu.Lock()
			defer p.mu.Unlock()
			return said.String()
		}
		p.Now("quick")
		time.Sleep(patient - time.Millisecond)
		p.Now("slow")
		time.Sleep(patient - time.Millisecond)
		synctest.Wait()
		if got := read(); got != "" {
			t.Errorf("too early: %q", got)
		}
		time.Sleep(10 * patient)
		p.Now("quick again")
		p.Now("")
		time.Sleep(10 * patient)
		synctest.Wait()
		if got := read(); got != "paracuda: slow ...\n" {
			t.Errorf("it says %q", got)
		}
	})
}

// TestProgressIsForTerminals: nothing is printed to a pipe.
func TestProgressIsForTerminals(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if p := NewProgress(w); p.out == w {
		t.Error("a pipe is taken for a terminal")
	}
}
