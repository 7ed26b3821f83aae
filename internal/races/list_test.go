// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// module has a package for each reason to race, and some that have none. pool/pool.go starts a
// goroutine, and nothing else in it can race.
var module = map[string]string{
	"go.mod":                 "module example.org/m\n\ngo 1.26\n",
	"pool/pool.go":           "package pool\n\nfunc Run(f func()) { go f() }\n",
	"vm/vm.go":               "package vm\n\nfunc Dir() { go Dir() }\n",
	"untested/a.go":          "package untested\n",
	"pure/a.go":              "package pure\n\nconst N = 1\n",
	"pure/a_test.go":         "package pure\n",
	"usespure/a.go":          "package usespure\n\nimport _ \"example.org/m/pure\"\n",
	"usespure/a_test.go":     "package usespure_test\n",
	"uses/a.go":              "package uses\n\nimport _ \"example.org/m/pool\"\n",
	"uses/a_test.go":         "package uses\n",
	"usesfar/a.go":           "package usesfar\n\nimport _ \"example.org/m/uses\"\n",
	"usesfar/a_test.go":      "package usesfar\n",
	"testuses/a.go":          "package testuses\n",
	"testuses/a_test.go":     "package testuses_test\n\nimport _ \"example.org/m/pool\"\n",
	"asksvm/a_test.go":       "package asksvm\n\nimport \"example.org/m/vm\"\n\nvar _ = vm.Dir\n",
	"goes/a.go":              "package goes\n\nfunc f() { go f() }\n",
	"goes/a_test.go":         "package goes\n",
	"testgoes/a.go":          "package testgoes\n\nfunc F() {}\n",
	"testgoes/a_test.go":     "package testgoes\n\nfunc f() { go F() }\n",
	"outergoes/a.go":         "package outergoes\n",
	"outergoes/a_test.go":    "package outergoes_test\n\nfunc f() { go f() }\n",
	"channel/a.go":           "package channel\n\ntype C chan int\n",
	"channel/a_test.go":      "package channel\n",
	"selects/a.go":           "package selects\n\nfunc f() { select {} }\n",
	"selects/a_test.go":      "package selects\n",
	"atomics/a.go":           "package atomics\n\nimport _ \"sync/atomic\"\n",
	"atomics/a_test.go":      "package atomics\n",
	"locks/a.go":             "package locks\n\nimport \"sync\"\n\nvar L sync.Mutex\n",
	"locks/a_test.go":        "package locks\n",
	"unsafely/a.go":          "package unsafely\n\nimport _ \"unsafe\"\n",
	"unsafely/a_test.go":     "package unsafely\n",
	"later/a.go":             "package later\n\nimport \"time\"\n\nvar T = time.AfterFunc\n",
	"later/a_test.go":        "package later\n",
	"synchronous/a.go":       "package synchronous\n\nvar sync, Go = 1, \"go f()\"\n",
	"synchronous/a_test.go":  "package synchronous\n",
	"synchronous/b_linux.go": "package synchronous\n\n// go f()\n",
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for name, text := range module {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	list, err := list(dir, []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	var races, none []string
	for _, p := range list {
		name := filepath.Base(p.path)
		if p.races {
			races = append(races, name)
		} else {
			none = append(none, name)
		}
	}
	slices.Sort(races)
	slices.Sort(none)
	if want := []string{"asksvm", "pure", "synchronous", "usespure"}; !slices.Equal(none, want) {
		t.Errorf("%q can't race, want %q", none, want)
	}
	if want := []string{"atomics", "channel", "goes", "later", "locks", "outergoes", "selects",
		"testgoes", "testuses", "unsafely", "uses", "usesfar"}; !slices.Equal(races, want) {
		t.Errorf("%q may race, want %q", races, want)
	}
}

func TestNoPackages(t *testing.T) {
	if _, err := list(t.TempDir(), []string{"./..."}); err == nil {
		t.Error("a folder without a module is listed")
	}
}
