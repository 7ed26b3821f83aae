// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Children are the numbers of the processes that a process has started.
func Children(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// Family are a process and all below it, each before those that it has started.
func Family(pid int) []int {
	family := []int{pid}
	for _, child := range Children(pid) {
		family = append(family, Family(child)...)
	}
	return family
}

// variable marks the processes that tests start, and those that these start: they inherit it.
const variable = "PARACUDA_TESTED_BY"

// marked sets the variable to a value that no other process has, and returns how it stands in the
// environment of those that inherit it.
func marked() string {
	value := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	_ = os.Setenv(variable, value)
	return variable + "=" + value
}

// withMark are the processes whose environment has the mark. Those whose environment can't be read,
// and those that have ended, aren't among them.
func withMark(mark string) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(text), "\x00"), mark) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes lists this process's children, and other processes with the mark. Children that have
// ended, and for which nobody has waited, are among them if ended is set.
func processes(mark string, ended bool) (all []string) {
	children := Children(os.Getpid())
	for _, pid := range children {
		if words := command(pid); words != "" || ended {
			all = append(all, fmt.Sprintf("child process %d: %s", pid, words))
		}
	}
	for _, pid := range withMark(mark) {
		if !slices.Contains(children, pid) {
			all = append(all, fmt.Sprintf("process %d, no child: %s", pid, command(pid)))
		}
	}
	return all
}

// command is a process's command line, to be shown.
func command(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := strings.Join(strings.Split(string(text), "\x00"), " ")
	return words[:min(len(words), 200)]
}
