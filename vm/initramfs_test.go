// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fakeKernel makes a kernel's directory with some modules.
func fakeKernel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	list := "k/fuse.ko:\nk/virtiofs.ko: k/ring.ko k/virtio.ko k/fuse.ko\n" +
		"k/ring.ko:\nk/virtio.ko: k/ring.ko\nk/virtio-pci.ko: k/virtio.ko\n"
	write(t, filepath.Join(dir, "modules/modules.dep"), list)
	for _, name := range []string{"fuse", "virtiofs", "ring", "virtio", "virtio-pci"} {
		write(t, filepath.Join(dir, "modules/k", name+".ko"), name)
	}
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWithDependencies(t *testing.T) {
	dir := filepath.Join(fakeKernel(t), "modules")
	got, err := withDependencies(dir, []string{"virtio_pci", "builtin", "virtiofs"})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"ring", "virtio", "virtio-pci", "fuse", "virtiofs"} {
		want = append(want, filepath.Join(dir, "k", name+".ko"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %q, not %q", got, want)
	}
}

func TestInitramfs(t *testing.T) {
	dir := fakeKernel(t)
	write(t, filepath.Join(dir, "init"), "the program")
	image, err := initramfs(filepath.Join(dir, "init"), dir)
	if err != nil {
		t.Fatal(err)
	}
	files := unpackArchive(t, string(image))
	if got := files["init"]; got != (archived{0o100755, "the program"}) {
		t.Errorf("init is %+v", got)
	}
	list := "/modules/ring.ko\n/modules/virtio.ko\n/modules/virtio-pci.ko\n" +
		"/modules/fuse.ko\n/modules/virtiofs.ko\n"
	if got := files["modules/list"].text; got != list {
		t.Errorf("the list is %q, not %q", got, list)
	}
	for name, mode := range map[string]int{"dev": 0o040755, "dev/console": 0o020600,
		"modules": 0o040755} {
		if files[name].mode != mode {
			t.Errorf("%s has mode %o, not %o", name, files[name].mode, mode)
		}
	}
}

type archived struct {
	mode int
	text string
}

// unpackArchive reads a cpio archive.
func unpackArchive(t *testing.T, image string) map[string]archived {
	t.Helper()
	files := map[string]archived{}
	for at := 0; ; {
		if !strings.HasPrefix(image[at:], "070701") {
			t.Fatalf("no entry at %d of %d", at, len(image))
		}
		field := func(i int) int {
			n, err := strconv.ParseInt(image[at+6+8*i:at+14+8*i], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := image[at+110 : at+110+nameSize-1]
		data := (at + 110 + nameSize + 3) &^ 3
		if name == "TRAILER!!!" {
			return files
		}
		files[name] = archived{mode, image[data : data+size]}
		at = (data + size + 3) &^ 3
	}
}

func TestInitramfsWithoutAKernel(t *testing.T) {
	if _, err := initramfs("/nowhere/init", "/nowhere"); err == nil {
		t.Error("an initramfs was made of nothing")
	}
}
