# Image of the provisioner: two static programs and the public CA certificates. `make image` builds the programs on this
# machine and only packages them here. `docker build .` does both.
ARG BINARIES=build

FROM docker.io/library/rust:1.95-bookworm AS build
ARG TARGETARCH
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools ca-certificates
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    image/binaries.sh "$TARGETARCH" && mkdir /out && cp -R "dist/$TARGETARCH/." /out/

FROM scratch AS prebuilt
ARG TARGETARCH
COPY dist/${TARGETARCH}/ /out/

FROM ${BINARIES} AS binaries

FROM scratch
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="rukpak-rs" \
      org.opencontainers.image.description="Installs operator bundles in Kubernetes clusters, upgrades them and repairs drift" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=binaries /out/ /
USER 65532:65532
ENTRYPOINT ["/provisioner"]
