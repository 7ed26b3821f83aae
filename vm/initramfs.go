// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// earlyModules are what a guest needs before it sees the host's files, apart
// from what its kernel has built in.
var earlyModules = []string{"virtio_pci", "virtio_console", "virtiofs", "overlay"}

// initramfs is the first file system of QEMU's guests: init, and the kernel
// modules that lead to the host's files.
func initramfs(initFile, kernelDir string) ([]byte, error) {
	var a archive
	a.directory("dev")
	a.console("dev/console")
	a.directory("modules")
	program, err := os.ReadFile(initFile)
	if err != nil {
		return nil, fmt.Errorf("make the initramfs: %w", err)
	}
	a.file("init", 0o755, program)
	modules, err := withDependencies(filepath.Join(kernelDir, "modules"), earlyModules)
	if err != nil {
		return nil, fmt.Errorf("make the initramfs: %w", err)
	}
	var list strings.Builder
	for _, m := range modules {
		text, err := os.ReadFile(m)
		if err != nil {
			return nil, fmt.Errorf("make the initramfs: %w", err)
		}
		name := "modules/" + filepath.Base(m)
		a.file(name, 0o644, text)
		list.WriteString("/" + name + "\n")
	}
	a.file("modules/list", 0o644, []byte(list.String()))
	return a.end(), nil
}

// withDependencies finds the files of the modules in dir and of all they need,
// each after what it needs itself. Modules built into the kernel have none.
func withDependencies(dir string, names []string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	order := &loadOrder{needs: map[string][]string{}, files: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		file, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			order.needs[file] = strings.Fields(needs)
			order.files[moduleName(file)] = file
		}
	}
	for _, name := range names {
		if file, ok := order.files[name]; ok {
			order.add(file)
		}
	}
	for i, file := range order.list {
		order.list[i] = filepath.Join(dir, file)
	}
	return order.list, nil
}

type loadOrder struct {
	needs map[string][]string // of each file
	files map[string]string   // of each module
	list  []string
}

func (o *loadOrder) add(file string) {
	for _, done := range o.list {
		if done == file {
			return
		}
	}
	for _, n := range o.needs[file] {
		o.add(n)
	}
	o.list = append(o.list, file)
}

func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// archive is a cpio archive in the form that Linux reads ("newc").
type archive struct {
	text  bytes.Buffer
	inode int
}

const (
	modeDirectory = 0o040755
	modeRegular   = 0o100000
	modeCharacter = 0o020600
)

func (a *archive) directory(name string) { a.entry(name, modeDirectory, 0, 0, nil) }

func (a *archive) console(name string) { a.entry(name, modeCharacter, 5, 1, nil) }

func (a *archive) file(name string, mode int, data []byte) {
	a.entry(name, modeRegular|mode, 0, 0, data)
}

// end adds the entry that marks the archive's end, and returns the whole.
func (a *archive) end() []byte {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.text.Bytes()
}

// entry adds a file of one link, owned by root and as old as the epoch, which
// is the device major:minor if it is one.
func (a *archive) entry(name string, mode, major, minor int, data []byte) {
	a.inode++
	fields := []int{a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name) + 1, 0}
	a.text.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&a.text, "%08X", f)
	}
	a.text.WriteString(name + "\x00")
	a.pad()
	a.text.Write(data)
	a.pad()
}

func (a *archive) pad() {
	for a.text.Len()%4 != 0 {
		a.text.WriteByte(0)
	}
}
