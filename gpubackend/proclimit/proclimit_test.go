// SPDX-License-Identifier: Apache-2.0

package proclimit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMappings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "max_map_count")
	for _, c := range []struct {
		text string
		want int
	}{
		{"4096\n", 4096}, {"2147483647\n", 2147483647},
		{"", usualMappings}, {"-1\n", usualMappings}, {"many\n", usualMappings},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mappingsIn(path); got != c.want {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
	}
	if got := mappingsIn(path + "no"); got != usualMappings {
		t.Errorf("no such file: %d", got)
	}
}

func TestFiles(t *testing.T) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if got := Files(); uint64(got) != min(l.Cur, 1<<30) {
		t.Errorf("%d files, want %d", got, l.Cur)
	}
}
