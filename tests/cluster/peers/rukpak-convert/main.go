// Command rukpak-convert converts registry+v1 bundles with rukpak's converter, one after the other in one process. The
// command prints the number of converted bundles, the number of rejected bundles and the seconds that the conversion took.
// The arguments are directories of bundles; without arguments, the command reads one directory per line from stdin.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/operator-framework/rukpak/pkg/convert"
)

func main() {
	namespace := flag.String("namespace", "operators", "the namespace to install into")
	verbose := flag.Bool("verbose", false, "print the reason of each rejection to stderr")
	flag.Parse()

	bundles := flag.Args()
	if len(bundles) == 0 {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			bundles = append(bundles, lines.Text())
		}
		if err := lines.Err(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}

	var converted, refused int
	var written int64
	start := time.Now()
	for _, bundle := range bundles {
		n, err := render(os.DirFS(bundle), *namespace)
		if err != nil {
			refused++
			if *verbose {
				fmt.Fprintf(os.Stderr, "%s: %v\n", bundle, err)
			}
			continue
		}
		converted++
		written += n
	}
	fmt.Printf("converted %d refused %d bytes %d seconds %.3f\n",
		converted, refused, written, time.Since(start).Seconds())
}

// render converts a bundle for all namespaces and reads the whole manifest.
func render(bundle fs.FS, namespace string) (int64, error) {
	plain, err := convert.RegistryV1ToPlain(bundle, namespace, nil)
	if err != nil {
		return 0, err
	}
	manifest, err := plain.Open("manifests/manifest.yaml")
	if err != nil {
		return 0, err
	}
	defer manifest.Close()
	return io.Copy(io.Discard, manifest)
}
