// SPDX-License-Identifier: Apache-2.0

package output

import (
	"os"
	"path/filepath"
	"testing"
)

// captured is a Redirect with files to which no output goes.
func captured(t *testing.T) *Redirect {
	t.Helper()
	c := &Redirect{}
	for i := range c.file {
		f, err := os.Create(filepath.Join(t.TempDir(), "output"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		c.file[i] = f
	}
	return c
}

// TestTakeOnlyWhatMayBePrinted: silent code's output is never looked for, that of code which only
// asserts once its context is dead.
func TestTakeOnlyWhatMayBePrinted(t *testing.T) {
	const silent, printing, asserting = ".version 8.0\n", ".version 8.0\ncall vprintf;",
		".version 8.0\ncall __assertfail;"
	for _, test := range []struct {
		name   string
		images []string
		dead   bool
		want   int
	}{
		{"no code", nil, true, 0},
		{"silent", []string{silent}, true, 0},
		{"printing", []string{silent, printing, silent}, false, 1},
		{"asserting", []string{asserting}, false, 0},
		{"asserting in a dead context", []string{asserting}, true, 1},
		{"unreadable", []string{""}, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			flushed, c := 0, captured(t)
			p := New(c, func(int) bool { return true }, nil, func() { flushed++ })
			for _, image := range test.images {
				p.Note([]byte(image))
			}
			_, _ = c.file[0].WriteString("text")
			out := p.Take(test.dead)
			if len(out) != test.want || flushed != test.want {
				t.Fatalf("%d texts, %d times flushed; want %d", len(out), flushed, test.want)
			}
			if test.want > 0 &&
				(out[0].FD != 1 || string(out[0].Text) != "text" || len(p.Take(test.dead)) != 0) {
				t.Errorf("text %q of %d, or again", out[0].Text, out[0].FD)
			}
		})
	}
}

// TestTakenTextIsDropped from the file when there is much of it, and no text is lost by that.
func TestTakenTextIsDropped(t *testing.T) {
	c := captured(t)
	var got int
	for range 3 {
		if _, err := c.file[1].Seek(0, 2); err != nil {
			t.Fatal(err)
		}
		_, _ = c.file[1].Write(make([]byte, captureKept+5))
		for {
			out := c.Take()
			if len(out) == 0 {
				break
			}
			if len(out[0].Text) > maxOutput {
				t.Fatalf("%d bytes at once", len(out[0].Text))
			}
			got += len(out[0].Text)
		}
		if info, err := c.file[1].Stat(); err != nil || info.Size() != 0 {
			t.Errorf("%d bytes are left, error %v", info.Size(), err)
		}
	}
	if got != 3*(captureKept+5) {
		t.Errorf("%d bytes", got)
	}
}
