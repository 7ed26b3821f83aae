// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tested is a package with tests.
type tested struct {
	path  string
	races bool // it may
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath, ForTest                     string
	Module                                       *struct{ Main bool }
	Deps                                         []string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
}

// list says of each package with tests whether it may race.
func list(dir string, patterns []string) ([]tested, error) {
	all, err := goList(dir, patterns)
	if err != nil {
		return nil, err
	}
	x := world{packages: make(map[string]*listed), starts: make(map[string]bool)}
	for _, p := range all {
		if p.ForTest == "" && p.Module != nil && p.Module.Main {
			x.packages[p.ImportPath] = p
		}
	}
	var list []tested
	for _, p := range all {
		path, test := strings.CutSuffix(p.ImportPath, ".test")
		if !test || x.packages[path] == nil {
			continue
		}
		races, err := x.races(x.packages[path], p.Deps)
		if err != nil {
			return nil, err
		}
		list = append(list, tested{path, races})
	}
	return list, nil
}

// goList lists packages, what they and their tests use, and, named PATH.test, their test programs.
func goList(dir string, patterns []string) (all []*listed, err error) {
	const fields = "Dir,ImportPath,ForTest,Module,Deps," +
		"GoFiles,CgoFiles,TestGoFiles,XTestGoFiles"
	cmd := exec.Command("go", append([]string{"list", "-test", "-deps", "-json=" + fields, "--"},
		patterns...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// world has the module's packages by their paths.
type world struct {
	packages map[string]*listed
	starts   map[string]bool // goroutines
}

// asked says whether a package is one that starts goroutines, but not for the tests of others: they
// only ask it where the files of VMs are.
func asked(path string) bool {
	return strings.HasSuffix(path, "/vm") || strings.Contains(path+"/", "/qemu/")
}

// races says whether a package may race, whose test program uses others.
func (x *world) races(p *listed, uses []string) (bool, error) {
	own := slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles)
	if races, err := anyOf(p.Dir, own, shares); races || err != nil {
		return races, err
	}
	for _, name := range uses {
		name, _, _ = strings.Cut(name, " ") // of a package made for a test, that follows
		used := x.packages[name]
		if used == nil || used == p || asked(name) {
			continue
		}
		if _, known := x.starts[name]; !known {
			found, err := anyOf(used.Dir, slices.Concat(used.GoFiles, used.CgoFiles), starts)
			if err != nil {
				return false, err
			}
			x.starts[name] = found
		}
		if x.starts[name] {
			return true, nil
		}
	}
	return false, nil
}
