// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/image"
)

// TestMakePages: each page is written to, at its first byte alone, and none once that was stopped.
func TestMakePages(t *testing.T) {
	i, err := image.New(6 * pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	all := i.Bytes()
	images := [][]byte{all[:100], all[100:100], all[pageBytes : 2*pageBytes+1],
		all[4*pageBytes:]}
	fill := bytes.Repeat([]byte{7}, len(all))
	firsts := []int{0, pageBytes, 2 * pageBytes, 4 * pageBytes, 5 * pageBytes}
	copy(all, fill)
	want := bytes.Clone(fill)
	for _, at := range firsts {
		want[at] = 0
	}
	began := time.Now()
	for written := false; !written; {
		stop := makePages(images)
		time.Sleep(time.Millisecond)
		stop()
		stop()
		written = bytes.Equal(all, want)
		if time.Since(began) > time.Minute {
			t.Fatal("not every page is written to, or more than that")
		}
	}
	for range 20 {
		stop := makePages(images)
		stop()
		copy(all, fill)
		if !bytes.Equal(all, fill) {
			t.Fatal("something is written to afterwards")
		}
	}
	time.Sleep(10 * time.Millisecond)
	if !bytes.Equal(all, fill) {
		t.Error("something is written to afterwards")
	}
	makePages(nil)()
}
