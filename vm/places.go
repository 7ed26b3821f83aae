// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownDir is a directory that the program can write to.
type ownDir struct {
	dir  string // its path without symbolic links
	keep bool   // the host keeps what is written there; else that ends with the VM
	tag  string // of one that is kept, in QEMU: its virtiofs
}

const (
	mostKept   = 16 // each is a device of the VM's
	mostMounts = 32
)

// places are the directories that the program can write to, parents first: those that the caller
// named, and /tmp, the home directory and the current one, which are layers that end with the VM.
func (p *Program) places(kind Kind) ([]ownDir, error) {
	kept, err := keptPlaces(kind, p.Write)
	if err != nil {
		return nil, err
	}
	layers := []string{"/tmp"}
	for _, dir := range []string{variable(p.Env, "HOME"), p.Dir} {
		if real, ok := layered(dir); ok {
			layers = append(layers, real)
		}
	}
	if kind == QEMU { // virtiofs has a file system for each of the host's
		layers = append(layers, mountsBelow(layers, mounts())...)
	}
	all := kept
	for _, dir := range layers {
		if !slices.ContainsFunc(all, func(p ownDir) bool { return p.dir == dir }) {
			all = append(all, ownDir{dir: dir})
		}
	}
	slices.SortFunc(all, func(a, b ownDir) int { return strings.Compare(a.dir, b.dir) })
	return all, nil
}

// keptPlaces are the directories whose writes the host keeps.
func keptPlaces(kind Kind, dirs []string) ([]ownDir, error) {
	var kept []ownDir
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			return nil, fmt.Errorf("write below %s: %w", dir, err)
		}
		for _, own := range []string{"/", "/dev", "/proc", "/sys"} {
			if real == own || own != "/" && holds(own, real) {
				return nil, fmt.Errorf("write below %s: the VM has %s itself", dir, own)
			}
		}
		if !slices.ContainsFunc(kept, func(p ownDir) bool { return p.dir == real }) {
			kept = append(kept, ownDir{dir: real, keep: true})
		}
	}
	if len(kept) > mostKept {
		return nil, fmt.Errorf("write below %d directories: %d are the most", len(kept), mostKept)
	}
	for i := range kept {
		if kind == QEMU {
			kept[i].tag = fmt.Sprintf("write%d", i)
		}
	}
	return kept, nil
}

// layered tells where a directory is and whether it can have a layer. The host's root can't.
func layered(dir string) (string, bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(real) || real == "/" {
		return "", false
	}
	info, err := os.Stat(real)
	return real, err == nil && info.IsDir()
}

// holds tells whether the path b is dir or lies below it.
func holds(dir, b string) bool {
	rest, ok := strings.CutPrefix(b, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// mountsBelow are the mounts below the directories, which a layer over one of
// these doesn't show.
func mountsBelow(dirs, mounts []string) []string {
	var below []string
	for _, m := range mounts {
		in := func(dir string) bool { return m != dir && holds(dir, m) }
		if slices.ContainsFunc(dirs, in) && !slices.Contains(below, m) && len(below) < mostMounts {
			if real, ok := layered(m); ok && real == m {
				below = append(below, m)
			}
		}
	}
	return below
}

// mounts are the places where the host has file systems.
func mounts() []string {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	var list []string
	octal := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			list = append(list, octal.Replace(fields[4]))
		}
	}
	return list
}

// variable is the value of the named variable in env.
func variable(env []string, name string) string {
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
