// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
