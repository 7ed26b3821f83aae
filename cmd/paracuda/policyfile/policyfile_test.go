// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChange(t *testing.T) {
	weight, memory := Setting{"weight", "300"}, Setting{"memory", "8G"}
	for _, tt := range []struct {
		name, text, want string
		set              []Setting
	}{
		{"empty", "", "[set]\nweight = 300\n", []Setting{weight}},
		{"no section", "gpu = \"soft\" # small",
			"gpu = \"soft\" # small\n\n[set]\nmemory = \"8G\"\n", []Setting{memory}},
		{"in place", "# a\n[set] # b\n  weight=\"1\"  # c\n# d\n",
			"# a\n[set] # b\n  weight=300  # c\n# d\n",
			[]Setting{weight}},
		{"single quotes", "[set]\nmemory = '1G'\n", "[set]\nmemory = \"8G\"\n",
			[]Setting{memory}},
		{"after the others", "gpu = \"soft\"\n[set]\nbatch-delay = \"1ms\"\n\n# end\n",
			"gpu = \"soft\"\n[set]\nbatch-delay = \"1ms\"\nweight = 300\nmemory = \"8G\"\n" +
				"\n# end\n",
			[]Setting{weight, memory}},
		{"commented out", "[set]\n# weight = 5\n", "[set]\nweight = 300\n# weight = 5\n",
			[]Setting{weight}},
		{"twice", "[set]\n", "[set]\nweight = 300\n", []Setting{{"weight", "5"}, weight}},
		{"another table after it", "[set]\n[other]\nweight = 5\n",
			"[set]\nweight = 300\n[other]\nweight = 5\n", []Setting{weight}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Change(tt.text, tt.set)
			if err != nil || got != tt.want {
				t.Errorf("%v:\n%s\nwant\n%s", err, got, tt.want)
			}
		})
	}
}

// TestChangeRefused: files whose layout isn't understood, and keys and values that can't be
// written.
func TestChangeRefused(t *testing.T) {
	const uncommon = "too uncommon"
	for _, tt := range []struct{ text, key, value, want string }{
		{"set = 5\n", "weight", "1", "isn't a section"},
		{"set = { weight = 5 }\n", "weight", "1", uncommon},
		{"set.weight = 5\n", "weight", "1", uncommon},
		{"[\"set\"]\nweight = 5\n", "weight", "1", uncommon},
		{"[set]\n\"weight\" = 5\n", "weight", "1", uncommon},
		{"[set]\nweight = [\n 5]\n", "weight", "1", uncommon},
		{"note = \"\"\"\n[set]\n\"\"\"\n", "weight", "1", uncommon},
		{"gpu = \"\n", "weight", "1", "line 1:"},
		{"", "weight", "a\"b", "can't be written"},
		{"", "weight", "a\nb", "can't be written"},
		{"", "weight", "", "can't be written"},
		{"", "we ight", "1", "no key"},
	} {
		got, err := Change(tt.text, []Setting{{tt.key, tt.value}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, not %q:\n%s", tt.text, err, tt.want, got)
		}
	}
}

// FuzzChange: a value that was set is read back, and setting it once more changes nothing.
func FuzzChange(f *testing.F) {
	f.Add("gpu = \"soft\"\n[set] # x\nweight = 5 # y\n", "weight", "300")
	f.Add("a = '''\n[set]\n'''\n", "memory", "8G")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		once, err := Change(text, []Setting{{key, value}})
		if err != nil {
			return
		}
		all, err := decode(once)
		if err != nil {
			t.Fatal(err)
		}
		if table, _ := all["set"].(map[string]any); table[key] != meant(value) {
			t.Errorf("%q: %v", once, all)
		}
		if twice, err := Change(once, []Setting{{key, value}}); err != nil || twice != once {
			t.Errorf("%q, then %q: %v", once, twice, err)
		}
	})
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "vm.conf"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, "new"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 2 {
		t.Errorf("%d files", len(all))
	}
	if err := Write(filepath.Join(dir, "none"), "x"); err == nil {
		t.Error("a file was made")
	}
}
