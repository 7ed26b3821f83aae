// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"home/u/work", "data", "kept"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../home/u/work", filepath.Join(dir, "data/link")); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, kind := range []Kind{UML, QEMU} {
		tag := map[Kind]string{UML: "", QEMU: "write0"}[kind]
		p := Program{Env: []string{"HOME=" + in("home/u")}, Dir: in("data/link"),
			Write: []string{in("kept"), in("kept/.")}}
		got, err := p.places(kind)
		got = slices.DeleteFunc(got, func(p ownDir) bool { return !strings.HasPrefix(p.dir, dir) })
		want := []ownDir{{dir: in("home/u")}, {dir: in("home/u/work")},
			{dir: in("kept"), keep: true, tag: tag}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v, not %+v", kind, got, err, want)
		}
		p.Write = []string{in("data/link")}
		got, err = p.places(kind)
		if err != nil ||
			!slices.Contains(got, ownDir{dir: in("home/u/work"), keep: true, tag: tag}) {
			t.Errorf("%s: a directory that is kept has a layer: %+v, %v", kind, got, err)
		}
	}
}

func TestWritesThatCannotBeKept(t *testing.T) {
	for dir, want := range map[string]string{
		"/":        "write below /: the VM has / itself",
		"/dev/shm": "write below /dev/shm: the VM has /dev itself",
		"/proc":    "write below /proc: the VM has /proc itself",
		"/nowhere": "write below /nowhere: lstat /nowhere: no such file or directory",
	} {
		c := Config{Kind: UML, Program: Program{Name: "p", Write: []string{dir}}}
		if _, err := c.complete(); err == nil || err.Error() != want {
			t.Errorf("the error is %v, not %q", err, want)
		}
	}
	var many []string
	for range mostKept + 1 {
		many = append(many, t.TempDir())
	}
	_, err := keptPlaces(QEMU, many)
	if err == nil || !strings.Contains(err.Error(), "16 are the most") {
		t.Errorf("%d directories: %v", len(many), err)
	}
}

func TestMountsBelow(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, filepath.Join(a, "dir/file"), "")
	all := []string{"/", a, a + "/dir", a + "/dir/file", a + "/gone", b, a + "x"}
	if got := mountsBelow([]string{a}, all); !slices.Equal(got, []string{a + "/dir"}) {
		t.Errorf("below %s are %q", a, got)
	}
}

func TestMountsAreRead(t *testing.T) {
	if got := mounts(); !slices.Contains(got, "/proc") {
		t.Errorf("there is no /proc in %q", got)
	}
}

func TestLibraryDirs(t *testing.T) {
	dir := t.TempDir()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a/libcuda.so.1"), string(self))
	write(t, filepath.Join(dir, "b/libnvidia-ml.so.1"), string(self))
	write(t, filepath.Join(dir, "i386/libcuda.so.1"), "not of 64 bits")
	write(t, filepath.Join(dir, "c/libother.so"), string(self))
	cache := filepath.Join(dir, "cache")
	var text strings.Builder
	for _, f := range []string{"glibc-ld.so.cache1.1", "libcuda.so.1", "a/libcuda.so.1",
		"i386/libcuda.so.1", "b/libnvidia-ml.so.1", "c/libother.so", "gone/libcuda.so"} {
		if strings.Contains(f, "/") {
			f = filepath.Join(dir, f)
		}
		text.WriteString(f + "\x00")
	}
	write(t, cache, text.String())
	if got, want := libraryDirs(cache), []string{dir + "/a", dir + "/b"}; !slices.Equal(got, want) {
		t.Errorf("the directories are %q, not %q", got, want)
	}
	if got := libraryDirs("/nowhere"); len(got) != 1 {
		t.Errorf("without a cache they are %q", got)
	}
}
