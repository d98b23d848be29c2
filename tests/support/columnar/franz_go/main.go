// Another client's schema registry, and its reader of records.
//
//	franz_go serve        prints the URL of a registry in memory; ends with standard input
//	franz_go read URL     from lines of records in base64 to lines of JSON: the id, the schema, the data behind them
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// record is what a reader finds in a record.
type record struct {
	ID     int    `json:"id"`
	Schema string `json:"schema"`
	Type   string `json:"type"`
	Data   []byte `json:"data"`
}

func main() {
	err := fmt.Errorf("expected serve or read URL, got %q", os.Args[1:])
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		err = serve()
	} else if len(os.Args) == 3 && os.Args[1] == "read" {
		err = read(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	registry := srfake.New()
	defer registry.Close()
	fmt.Println(registry.URL())
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func read(url string) error {
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		framed, err := base64.StdEncoding.DecodeString(lines.Text())
		if err != nil {
			return err
		}
		found, err := decode(client, framed)
		if err != nil {
			return err
		}
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return nil
}

// decode looks up the id that the record begins with, and lets a Serde for it take the rest.
func decode(client *sr.Client, framed []byte) (*record, error) {
	id, _, err := new(sr.ConfluentHeader).DecodeID(framed)
	if err != nil {
		return nil, err
	}
	schema, err := client.SchemaByID(context.Background(), id)
	if err != nil {
		return nil, err
	}
	serde := sr.NewSerde()
	serde.Register(id, record{}, sr.DecodeFn(func(data []byte, into any) error {
		*into.(*record) = record{ID: id, Schema: schema.Schema, Type: schema.Type.String(), Data: data}
		return nil
	}))
	found := new(record)
	return found, serde.Decode(framed, found)
}
