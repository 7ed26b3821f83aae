// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"os"
	"path/filepath"
	"testing"
)

// TestParseCompiled reads what nvcc made of the programs of package simt.
func TestParseCompiled(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../simt/testdata/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Parse(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Functions) == 0 {
				t.Fatal("no functions")
			}
			for _, f := range m.Functions {
				if f.Entry && !f.Defined {
					t.Errorf("entry %s without body", f.Name)
				}
			}
		})
	}
}
