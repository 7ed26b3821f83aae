// SPDX-License-Identifier: Apache-2.0

package children

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/internal/leaks"
)

// TestMain runs a command in place of tests in the processes that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
		for _, c := range Commands("devel") {
			root.AddCommand(c())
		}
		if err := root.Execute(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The one that starts the starter process stays.
	os.Exit(leaks.OfCommands(m,
		"github.com/paracuda/paracuda/cmd/paracuda/children.startForGood.func1"))
}
