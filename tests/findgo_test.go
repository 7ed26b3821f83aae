// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFindGo puts releases of Go into PATH: some are too old, others are new enough, or can fetch
// one that is.
func TestFindGo(t *testing.T) {
	wanted := regexp.MustCompile(`(?m)^go (.*)$`).FindSubmatch(read(t, "go.mod"))
	for _, tt := range []struct {
		version, toolchain string
		good               bool
	}{
		{"go" + string(wanted[1]), "local", true},
		{"go1.999", "local", true},
		{"go1.23.4", "auto", true},
		{"go1.24.1", "go1.22.0+auto", true},
		{"go1.23.4", "local", false},
		{"go1.23.4", "path", false},
		{"go1.20.7", "auto", false},
	} {
		dir := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\ncase \"$2\" in GOVERSION) echo %s;; "+
			"GOTOOLCHAIN) echo %s;; esac\n", tt.version, tt.toolchain)
		if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(filepath.Join(root, "scripts/find-go"))
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PARACUDA_CACHE="+dir)
		out, err := c.Output()
		if found := strings.TrimSpace(string(out)); err != nil || (found == "go") != tt.good {
			t.Errorf("%s with GOTOOLCHAIN=%s: found %q, %v, want it taken: %v", tt.version,
				tt.toolchain, found, err, tt.good)
		}
	}
}
