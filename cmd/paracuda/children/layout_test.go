// SPDX-License-Identifier: Apache-2.0

package children

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestStartApart: a child's libraries lie in the lower half of its address space, and this process
// keeps its own personality.
func TestStartApart(t *testing.T) {
	before, err := personality(currentPersonality)
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("cat", "/proc/self/maps")
	c.Stdout = w
	if err := startApart(c); err != nil {
		t.Fatal(err)
	}
	w.Close()
	libraries := 0
	for s := bufio.NewScanner(out); s.Scan(); {
		start, _, _ := strings.Cut(s.Text(), "-")
		if !strings.Contains(s.Text(), ".so") {
			continue
		}
		address, err := strconv.ParseUint(start, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if libraries++; address >= 0x4000_0000_0000 {
			t.Errorf("a library in the upper half: %s", s.Text())
		}
	}
	if err := c.Wait(); err != nil || libraries == 0 {
		t.Fatalf("cat: %v, %d libraries", err, libraries)
	}
	if after, err := personality(currentPersonality); err != nil || after != before {
		t.Errorf("personality %#x became %#x (%v)", before, after, err)
	}
}
