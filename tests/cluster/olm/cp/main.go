// cp copies a file for the unpack Jobs of OLM, which run `cp -Rv FROM TO` in an image without other programs.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "cp:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("FROM and TO are needed, and are the last arguments")
	}
	paths := args[len(args)-2:]
	from, err := os.Open(paths[0])
	if err != nil {
		return err
	}
	defer from.Close()
	about, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(paths[1], os.O_CREATE|os.O_TRUNC|os.O_WRONLY, about.Mode())
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return to.Close()
}
